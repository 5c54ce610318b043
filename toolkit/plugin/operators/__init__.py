"""The names of vLLM's native operators, defined on our library."""
