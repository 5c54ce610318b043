"""A model's shapes, read from its configuration."""

from toolkit.planning.geometry.model import LayerKind, ModelGeometry
from toolkit.planning.geometry.reading import read_geometry

__all__ = ["LayerKind", "ModelGeometry", "read_geometry"]
