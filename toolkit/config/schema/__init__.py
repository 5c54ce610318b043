"""Dataclasses of every configuration group, one file a group; each field is followed by its documentation."""
