"""Group `limits`: how much the server may take on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional


class EmbeddingPlace(Enum):
    """Where the table of an n-gram embedding lies."""

    gpu = "gpu"
    pinned = "pinned"
    disk = "disk"


@dataclass
class LimitsConfig:
    """Sizes and budgets."""

    max_model_len: int = 4096
    """Longest request in tokens, prompt and output together."""
    max_num_seqs: int = 8
    """Requests that run at once."""
    max_num_batched_tokens: int = 2048
    """Tokens that one step may compute."""
    tensor_parallel: int = 1
    """GPUs that share each layer's weights."""
    kv_cache_memory_bytes: Optional[int] = None
    """Bytes for the KV cache on each rank; null takes gpu_memory_utilization of a GPU, or 1 GiB with engine=cpu."""
    for_tokens: Optional[int] = None
    """Instead of kv_cache_memory_bytes: the tokens that the cache shall hold; the fewest bytes are worked out."""
    for_concurrency: Optional[float] = None
    """Instead of kv_cache_memory_bytes: the requests of max_model_len tokens that shall fit at once."""
    gpu_memory_utilization: float = 0.9
    """Share of a GPU's memory that must be free at the start, and is filled where kv_cache_memory_bytes is null."""
    block_size: Optional[int] = None
    """Tokens of a KV block; null takes the smallest that fits the model."""
    prefix_caching: bool = True
    """Reuse the KV blocks of common prompt beginnings."""
    ngram_embedding: EmbeddingPlace = EmbeddingPlace.pinned
    """Table of a model's n-gram embedding: `pinned` (locked host memory that the GPU reads), `gpu`, or `disk`."""
