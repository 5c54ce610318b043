"""From configuration and facts to a frozen Plan, without any I/O."""
