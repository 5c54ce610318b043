"""From a deployment and a model's shapes to blocks, tokens and concurrency."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.capacity.caches import ELEMENT_BYTES
from toolkit.planning.capacity.engines import layout_for
from toolkit.planning.capacity.grouping import GroupSize, group_layers
from toolkit.planning.capacity.layers import LayerPlan, head_layers, layer_caches, plan_layers
from toolkit.planning.capacity.pool import Pool, pool_of
from toolkit.planning.capacity.sparse_dcp import SparseModel, packed_pool, span_pool
from toolkit.planning.geometry.model import Indexer, LayerKind, ModelGeometry
from toolkit.planning.plan import Capacity


def plan_capacity(
    config: DeploymentConfig,
    geometry: ModelGeometry,
    kv_memory_bytes: int | None,
    draft: ModelGeometry | None = None,
) -> Capacity:
    """Compute one rank's KV capacity, as vLLM 0.32 will print it.

    kv_memory_bytes: bytes for the cache on each rank; None where the engine finds them by profiling, and then only
    the sizes are known.
    draft: a draft model's own shapes; without them, group `speculative` describes it.
    Raises ConfigurationError where the model's heads do not divide or a layer's cache is not known.
    """
    return plan_pool(config, geometry, draft).capacity(kv_memory_bytes)


def plan_pool(
    config: DeploymentConfig,
    geometry: ModelGeometry,
    draft: ModelGeometry | None = None,
    size: GroupSize = GroupSize.fewest,
) -> Pool:
    """Compute the block pool of one rank: what a block takes, and what a request takes of it."""
    plan = plan_layers(config, geometry)
    if plan.load.dcp > 1 and geometry.indexer is not None:
        return _sharded_sparse_pool(config, plan, geometry.indexer)
    layers = layer_caches(config, plan, draft)
    layout = layout_for(geometry.indexer is not None, config.speculative.has_draft, plan.load)
    return pool_of(group_layers(layers, layout, size), plan.load, plan.block_tokens * plan.load.dcp)


def _sharded_sparse_pool(config: DeploymentConfig, plan: LayerPlan, indexer: Indexer) -> Pool:
    geometry, load = plan.geometry, plan.load
    model = SparseModel(
        target_layers=geometry.count(LayerKind.sparse),
        draft_layers=head_layers(config, geometry),
        recurrent_layers=geometry.count(LayerKind.recurrent),
        embedding_layers=geometry.per_layer_embedding.layers if geometry.per_layer_embedding else 0,
        token_bytes=plan.token_bytes,
        compressed_bytes=indexer.key_heads * indexer.head_dim * ELEMENT_BYTES[plan.dtype],
        compress_ratio=indexer.compress_ratio,
        slots=plan.slots,
    )
    make = packed_pool if config.dcp.packed_pages else span_pool
    return make(model, plan.block_tokens, load.dcp, load.max_model_len)


@dataclass(frozen=True)
class Solution:
    """Memory for one rank, and what it holds."""

    memory_bytes: int
    blocks: int
    tokens: int
    concurrency: float


def with_memory(pool: Pool, memory_bytes: int) -> Solution:
    """Return what this much memory holds; the rest of a block is left over."""
    return _solution(pool, memory_bytes // pool.bytes_per_block, memory_bytes)


def for_tokens(pool: Pool, tokens: int) -> Solution:
    """Return the least memory for which the engine reports this many tokens."""
    blocks = pool.blocks_for_tokens(tokens)
    return _solution(pool, blocks, blocks * pool.bytes_per_block)


def for_concurrency(pool: Pool, requests: float) -> Solution:
    """Return the least memory in which this many requests of max_model_len tokens fit at once."""
    blocks = pool.blocks_for_concurrency(requests)
    return _solution(pool, blocks, blocks * pool.bytes_per_block)


def _solution(pool: Pool, blocks: int, memory_bytes: int) -> Solution:
    return Solution(memory_bytes, blocks, pool.tokens(blocks), pool.concurrency(blocks))
