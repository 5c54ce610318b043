"""Composing, checking and explaining the configuration."""
