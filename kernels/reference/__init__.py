"""Float64 oracles: what each operator means, written for reading, not for speed. Tests compare everything with them."""
