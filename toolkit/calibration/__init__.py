"""Calibration: prompts through a real engine, its keys and values measured, KV scales and their evidence written."""
