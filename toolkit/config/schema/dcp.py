"""Group `dcp`: decode context parallelism, which shards each request's KV cache over ranks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DcpConfig:
    """Decode context parallelism."""

    size: int = 1
    """Ranks that share one KV cache; 1 is off."""
    interleave: int = 1
    """Consecutive tokens that stay on one rank."""
    packed_pages: bool = True
    """With size > 1: two sharded layers share one physical page, which halves the bytes of a block."""
