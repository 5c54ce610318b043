"""Carrying a plan out: from a launch to an answer, and to the end."""
