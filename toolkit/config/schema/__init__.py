"""Dataclasses of every configuration group, one file a group; each field is followed by its documentation."""

from typing import Any

MISSING: Any = "???"
"""OmegaConf's mark of a value that must be set; written out here, as importing OmegaConf takes a tenth of a second."""
