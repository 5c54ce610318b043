"""The n-gram embedding's table (PLE): too large for a GPU, so it stays in the host's memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from toolkit.planning.geometry.model import ModelGeometry, PerLayerEmbedding
from toolkit.planning.geometry.shards import round_up

TABLE_ELEMENT_BYTES = 1
"""Tables are stored in FP8 in every checkpoint that the toolkit plans; 16-bit ones are twice as large."""


def table_rows(embedding: PerLayerEmbedding) -> tuple[int, ...]:
    """Rows of each layer's table.

    Every hash head, over all tables, has its own prime number of rows, counted up from the base; a table's sum is
    padded to the divisor (transformers 5.19, Qwen4ExpTextNGramEmbedding).
    """
    primes = _primes_from(embedding.vocabulary_base)
    return tuple(
        round_up(sum(islice(primes, embedding.heads)), embedding.vocabulary_divisor) for _ in range(embedding.layers)
    )


def table_bytes(geometry: ModelGeometry) -> int:
    """Bytes of all tables, over all ranks; 0 without such an embedding."""
    embedding = geometry.per_layer_embedding
    if embedding is None:
        return 0
    return sum(table_rows(embedding)) * embedding.row_elements * TABLE_ELEMENT_BYTES


def is_table(name: str) -> bool:
    """Whether a tensor is part of a table."""
    return ".ngram_embedding." in name


def _primes_from(start: int) -> Iterator[int]:
    candidate = max(start, 2)
    while True:
        if _is_prime(candidate):
            yield candidate
        candidate += 1


def _is_prime(value: int) -> bool:
    if value % 2 == 0:
        return value == 2
    return all(value % divisor for divisor in range(3, int(value**0.5) + 1, 2))
