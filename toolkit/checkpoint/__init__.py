"""Checkpoints: where they come from, and the facts that planning needs."""
