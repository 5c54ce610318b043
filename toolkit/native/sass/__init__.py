"""SM70 machine code: what is in it, and how control flows through it."""
