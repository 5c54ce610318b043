"""Attention backends for SM70."""
