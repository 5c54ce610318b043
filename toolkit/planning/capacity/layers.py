"""A model's layers as caches of one rank, named as plainly as possible: `full.3`, `recurrent.0`, `draft.1`."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.errors import ConfigurationError
from toolkit.planning.capacity.blocks import embedding_state_bytes, hybrid_block_tokens, recurrent_state_bytes
from toolkit.planning.capacity.caches import (
    Cache,
    CompressedCache,
    FullCache,
    Load,
    RingCache,
    SlidingCache,
    StateCache,
    ceil_div,
    state_slots,
)
from toolkit.planning.capacity.drafts import draft_caches
from toolkit.planning.capacity.engines import TRAITS, kv_element, load_of
from toolkit.planning.geometry.model import LayerKind, ModelGeometry
from toolkit.planning.geometry.shards import Rank, rank_of, round_up

_ROPE_POSITION_ELEMENTS = 12
"""A ring's key carries three 64-bit positions where the model sees images: twelve 16-bit elements."""


@dataclass(frozen=True)
class LayerPlan:
    """What caches are made from: the model, one rank's share of it, and the deployment's choices."""

    geometry: ModelGeometry
    rank: Rank
    load: Load
    dtype: str
    """The engine's element type."""
    kv_dtype: str
    draft_tokens: int
    slots: int
    """States that one request holds in each recurrent layer."""
    block_tokens: int
    state_block_tokens: int
    """Tokens between two states that prefix caching may keep."""
    kernel_block: int
    """Tokens that attention kernels take at a time, on all ranks that share a sparse model's cache."""

    @property
    def token_bytes(self) -> int:
        """Bytes of one token of one attention layer on this rank."""
        return self.full_cache(1).token_bytes

    def full_cache(self, block_tokens: int) -> FullCache:
        """Make an attention layer's cache with blocks of this size."""
        dim = self.geometry.attention.head_dim
        return FullCache(block_tokens, self.rank.kv_heads, dim, dim, self.kv_dtype)

    @property
    def state_bytes(self) -> tuple[int, ...]:
        """Bytes of each kind of state that the model has."""
        return _state_bytes(self.geometry, self.rank, self.draft_tokens, self.dtype)


def plan_layers(config: DeploymentConfig, geometry: ModelGeometry) -> LayerPlan:
    """Settle block sizes and states for one rank.

    Raises ConfigurationError if a layer keeps something for a request that the toolkit does not know.
    """
    if geometry.unknown_cache:
        raise _unknown(geometry)
    traits, load = TRAITS[config.engine.name], load_of(config)
    rank = rank_of(geometry, config.limits.tensor_parallel)
    dtype, kv_dtype, draft_tokens = config.engine.dtype, kv_element(config), config.speculative.tokens
    attention = geometry.attention
    token = FullCache(1, rank.kv_heads, attention.head_dim, attention.head_dim, kv_dtype).token_bytes
    sharded_sparse = load.dcp > 1 and geometry.indexer is not None
    kernel_block = traits.kernel_block * (load.dcp if sharded_sparse else 1)
    block = config.limits.block_size or traits.default_block
    states = _state_bytes(geometry, rank, draft_tokens, dtype)
    if states:
        block = max(block, hybrid_block_tokens(max(states), token, kernel_block, block))
    caching = config.limits.prefix_caching
    return LayerPlan(
        geometry=geometry,
        rank=rank,
        load=load,
        dtype=dtype,
        kv_dtype=kv_dtype,
        draft_tokens=draft_tokens,
        slots=state_slots(caching, draft_tokens),
        block_tokens=block,
        state_block_tokens=block if caching else load.max_model_len,
        kernel_block=kernel_block,
    )


def layer_caches(config: DeploymentConfig, plan: LayerPlan, draft: ModelGeometry | None = None) -> dict[str, Cache]:
    """List every layer that keeps something, target layers first and the draft's after them."""
    geometry = plan.geometry
    found: dict[str, Cache] = {}
    for index, kind in enumerate(geometry.layers):
        found |= _target(plan, index, kind)
    if geometry.per_layer_embedding is not None:
        for index in range(geometry.per_layer_embedding.layers):
            found[f"embedding.{index}"] = _state(plan, plan.state_bytes[-1], replicated=True)
    head = LayerKind.sparse if geometry.indexer is not None else LayerKind.full
    for index in range(head_layers(config, geometry)):
        found |= _target(plan, len(geometry.layers) + index, head)
    if config.speculative.has_draft:
        found |= draft_caches(config, draft, plan.block_tokens, plan.kernel_block)
    return found


def _target(plan: LayerPlan, index: int, kind: LayerKind) -> dict[str, Cache]:
    if kind is LayerKind.recurrent:
        return {f"recurrent.{index}": _state(plan, plan.state_bytes[0], replicated=False)}
    if kind is LayerKind.sliding:
        return {f"sliding.{index}": _sliding(plan)}
    main: dict[str, Cache] = {f"full.{index}": plan.full_cache(plan.block_tokens)}
    return main | (_selector(plan, index) if kind is LayerKind.sparse else {})


def _sliding(plan: LayerPlan) -> SlidingCache:
    attention = plan.geometry.attention
    block = max(plan.kernel_block, plan.block_tokens // plan.kernel_block * plan.kernel_block)
    return SlidingCache(
        block,
        plan.rank.kv_heads,
        attention.head_dim,
        attention.head_dim,
        plan.kv_dtype,
        window=attention.window or plan.load.max_model_len,
    )


def _selector(plan: LayerPlan, index: int) -> dict[str, Cache]:
    """QSA's compressed keys, and the ring of keys that are not compressed yet; 16-bit whatever the main cache is."""
    indexer = plan.geometry.indexer
    if indexer is None:
        return {}
    ratio, dim = indexer.compress_ratio, indexer.head_dim
    ring = ratio * ceil_div(ratio + plan.draft_tokens, ratio)
    positions = _ROPE_POSITION_ELEMENTS if plan.geometry.vision is not None else 0
    return {
        f"ring.{index}": RingCache(ring, 1, round_up(dim, 4) + positions if positions else dim, 0, plan.dtype),
        f"compressed.{index}": CompressedCache(plan.block_tokens, 1, dim, 0, plan.dtype, tokens_per_state=ratio),
    }


def _state(plan: LayerPlan, state_bytes: int, replicated: bool) -> StateCache:
    page = plan.block_tokens * plan.token_bytes
    return StateCache(
        block_tokens=plan.state_block_tokens,
        state_bytes=state_bytes,
        slots=plan.slots,
        replicated=replicated,
        padded_page=None if page == max(plan.state_bytes) else page,
    )


def _state_bytes(geometry: ModelGeometry, rank: Rank, draft_tokens: int, dtype: str) -> tuple[int, ...]:
    found: list[int] = []
    if geometry.recurrent is not None:
        found.append(recurrent_state_bytes(geometry.recurrent, rank, draft_tokens, dtype))
    if geometry.per_layer_embedding is not None:
        streams = geometry.hyper_connections.streams if geometry.hyper_connections else 1
        embedding = geometry.per_layer_embedding
        found.append(embedding_state_bytes(embedding, geometry.hidden_size, streams, draft_tokens, dtype))
    return tuple(found)


def head_layers(config: DeploymentConfig, geometry: ModelGeometry) -> int:
    """Count the attention layers of the next-token head, if the deployment drafts with it.

    Raises ConfigurationError if it should and the checkpoint has none.
    """
    if config.speculative.method != "mtp":
        return 0
    if geometry.mtp_layers:
        return geometry.mtp_layers
    raise ConfigurationError(
        "This checkpoint has no next-token head to draft with.",
        where="speculative",
        why="its config.json gives neither mtp_num_hidden_layers nor num_nextn_predict_layers",
        fix="speculative=none",
    )


def _unknown(geometry: ModelGeometry) -> ConfigurationError:
    return ConfigurationError(
        f"The KV capacity of this model is not known: {', '.join(geometry.unknown_cache)}.",
        where=geometry.architecture or "config.json",
        why="these parts decide what a layer keeps for each request, and no formula for them is here",
        fix="serve it with a KV size that the engine finds by itself, and read the capacity from its log",
    )
