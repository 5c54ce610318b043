"""The native SM70 library: building it, describing it, loading it, and checking a wheel that carries it."""

from toolkit.native.info import Info, info
from toolkit.native.library import load

__all__ = ["Info", "info", "load"]
