"""SM70 as a platform of vLLM: when it is active, what it keeps away, and what it answers."""
