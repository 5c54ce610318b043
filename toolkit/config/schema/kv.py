"""Group `kv`: how keys and values are stored in the cache."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class KvConfig:
    """The KV cache's element type."""

    dtype: str = "float16"
    """`float16`, `fp8_e4m3` or `fp8_e5m2`. `fp8` alone is refused: it does not say which of the two formats."""
