"""The engine's own answer: vLLM 0.32's functions on caches built from a config.json, independently of the toolkit.

Only what reads a running engine (model classes, attention layers) is stood in for; block size, layout, grouping,
number of blocks and concurrency are computed by upstream's code.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from vllm.config.vllm import VllmConfig
from vllm.model_executor.layers.attention.attention import _largest_kernel_block_within
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
from vllm.platforms.interface import Platform
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum
from vllm.v1.attention.backends.utils import resolve_kv_cache_layout
from vllm.v1.core.kv_cache_utils import (
    _pool_bytes_per_block,
    generate_scheduler_kv_cache_config,
    get_kv_cache_capacity,
    get_kv_cache_configs,
)
from vllm.v1.kv_cache_interface import (
    CircularBufferSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    get_kv_quant_mode,
)
from vllm.v1.kv_cache_layout import KVCacheLayout

from toolkit.planning.capacity.caches import CompressedCache, Load, RingCache, SlidingCache, StateCache

logging.getLogger("vllm").setLevel(logging.ERROR)

DTYPES = {"float16": torch.float16, "float32": torch.float32, "bfloat16": torch.bfloat16}
SPARSE_LAYOUTS = ["BLNHC", "BLHNC"]
CPU_LAYOUTS = ["LBHNC"]
ANY_LAYOUTS = ["LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC"]


@dataclass(frozen=True)
class Answer:
    """What the engine would print, and the sizes behind it."""

    block_size: int
    bytes_per_block: int
    blocks: int
    groups: int
    tokens: int
    concurrency: float


@dataclass(frozen=True)
class Case:
    """A deployment in the engine's own words."""

    text: dict[str, Any]
    engine: str = "v100"
    dtype: str = "float16"
    cache_dtype: str = "auto"
    tensor_parallel: int = 1
    dcp: int = 1
    max_model_len: int = 4096
    max_num_batched_tokens: int = 2048
    block_size: int | None = None
    prefix_caching: bool = True
    method: str = "none"
    draft_tokens: int = 0
    draft: dict[str, Any] | None = None


def backend_of(case: Case) -> Any:
    size = 32 if case.engine == "cpu" else 16
    return SimpleNamespace(
        get_supported_kernel_block_sizes=lambda spec=None: [MultipleOf(size)],
        customize_spec=lambda spec: spec,
        get_name=lambda: case.engine,
    )


def vllm_config(case: Case) -> Any:
    """The attributes of a VllmConfig that the cache code reads."""
    asynchronous = case.engine == "v100" and case.method != "ngram"
    config = SimpleNamespace(
        cache_config=SimpleNamespace(
            cache_dtype=case.cache_dtype,
            block_size=case.block_size or (128 if case.engine == "cpu" else 16),
            mamba_cache_mode="align" if case.prefix_caching else "none",
            mamba_block_size=None if case.prefix_caching else case.max_model_len,
            mamba_page_size_padded=None,
            mamba_cache_dtype="auto",
            mamba_ssm_cache_dtype=case.text.get("mamba_ssm_dtype", "auto"),
            enable_prefix_caching=case.prefix_caching,
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=None,
            kv_cache_layout=None,
        ),
        model_config=SimpleNamespace(
            hf_text_config=SimpleNamespace(**case.text),
            dtype=DTYPES[case.dtype],
            use_mla=False,
            architecture="stand-in",
            max_model_len=case.max_model_len,
            original_max_model_len=case.max_model_len,
            get_num_kv_heads=lambda parallel: max(1, case.text["num_key_value_heads"] // case.tensor_parallel),
            get_head_size=lambda: case.text["head_dim"],
        ),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=case.tensor_parallel, decode_context_parallel_size=case.dcp, pipeline_parallel_size=1
        ),
        scheduler_config=SimpleNamespace(
            max_num_batched_tokens=case.max_num_batched_tokens,
            async_scheduling=asynchronous,
            disable_hybrid_kv_cache_manager=False,
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        kv_transfer_config=None,
        speculative_config=None,
        num_speculative_tokens=case.draft_tokens,
        num_prefill_lookahead_tokens=1 if case.method in ("mtp", "dflash") else 0,
        use_v2_model_runner=True,
    )
    config.max_concurrent_batches = VllmConfig.max_concurrent_batches.fget(config)
    config.max_in_flight_tokens = VllmConfig.max_in_flight_tokens.fget(config)
    resolved = config.cache_config
    resolved.get_resolved_kv_cache_layout = lambda: KVCacheLayout[resolved.kv_cache_layout]
    return config


def states(case: Case) -> tuple[MambaSpec, ...]:
    """The recurrent state, and the n-gram embedding's convolution, as the model classes declare them."""
    text, dtype = case.text, DTYPES[case.dtype]
    if "linear_num_key_heads" not in text:
        return ()
    state_dtype = getattr(torch, text.get("mamba_ssm_dtype", case.dtype))
    shapes = MambaStateShapeCalculator.gated_delta_net_state_shape(
        case.tensor_parallel,
        text["linear_num_key_heads"],
        text["linear_num_value_heads"],
        text["linear_key_head_dim"],
        text["linear_value_head_dim"],
        text["linear_conv_kernel_dim"],
        case.draft_tokens,
    )
    gdn = MambaSpec(shapes=shapes, dtypes=(dtype, state_dtype), block_size=-1)
    if not text.get("ple_layer_ids"):
        return (gdn,)
    window = (text["ple_conv_kernel_size"] - 1) * text["ngram_size"]
    shape = MambaStateShapeCalculator.short_conv_state_shape(
        tp_world_size=1,
        intermediate_size=text["hidden_size"] * text["hc_count"],
        conv_kernel=window + 1,
        num_spec=case.draft_tokens,
    )
    conv = MambaSpec(
        shapes=shape,
        dtypes=(dtype,),
        block_size=-1,
        tp_replicated=True,
        mamba_type=MambaAttentionBackendEnum.SHORT_CONV,
    )
    return (gdn, conv)


class StandInPlatform(Platform):
    """A platform whose only attention backend is the case's."""

    backend: Any = None

    @classmethod
    def _find_non_ssm_backends(cls, vllm_config: Any) -> list[Any]:
        return [cls.backend]


def align(case: Case, config: Any) -> None:
    """Upstream's own choice of the block size and the padded state page."""
    if not states(case):
        return
    StandInPlatform.backend = backend_of(case)
    model = SimpleNamespace(get_mamba_specs_from_config=lambda _: states(case))
    with (
        patch("vllm.model_executor.models.ModelRegistry.resolve_model_cls", lambda *_, **__: (model, "")),
        patch("vllm.config.vllm.set_current_vllm_config", lambda *_: contextlib.nullcontext()),
    ):
        StandInPlatform._align_hybrid_block_size(config, StandInPlatform.backend)


def attention(case: Case, config: Any, window: int | None, *, of: dict[str, Any], cache_dtype: str) -> KVCacheSpec:
    """One attention layer's cache, as Attention.get_kv_cache_spec makes it."""
    quantized = cache_dtype.startswith("fp8")
    shared = {
        "num_kv_heads": max(1, of["num_key_value_heads"] // case.tensor_parallel),
        "head_size": of["head_dim"],
        "dtype": torch.uint8 if quantized else DTYPES[case.dtype],
        "kv_quant_mode": get_kv_quant_mode(cache_dtype),
    }
    block = config.cache_config.block_size
    if window is None:
        return FullAttentionSpec(block_size=block, **shared)
    one = SlidingWindowSpec(block_size=1, sliding_window=window, **shared)
    size = _largest_kernel_block_within(
        backend_of(case), one.real_page_size_bytes, one.real_page_size_bytes * block, block, one
    )
    return replace(one, block_size=size)


def selector(case: Case, config: Any, index: int) -> dict[str, KVCacheSpec]:
    """QSA's ring and compressed keys; the toolkit's declared models carry no image positions."""
    ratio, dim = case.text["indexer_compress_ratio"], case.text["indexer_head_dim"]
    ring = ratio * -(-(ratio + case.draft_tokens) // ratio)
    dtype = DTYPES[case.dtype]
    return {
        f"{index}.ring": CircularBufferSpec(block_size=ring, num_kv_heads=1, head_size=dim, head_size_v=0, dtype=dtype),
        f"{index}.compressed": MLAAttentionSpec(
            block_size=config.cache_config.block_size,
            num_kv_heads=1,
            head_size=dim,
            dtype=dtype,
            tokens_per_state=ratio,
        ),
    }


def recurrent_specs(case: Case, config: Any, index: int) -> dict[str, KVCacheSpec]:
    """One recurrent layer's state, and the n-gram embedding's where the layer has one."""
    cache, made = config.cache_config, {}
    embedded = index + 1 in case.text.get("ple_layer_ids", ())
    for name, spec in zip(("state", "embedding") if embedded else ("state",), states(case), strict=False):
        made[f"{index}.{name}"] = replace(
            spec,
            block_size=cache.mamba_block_size,
            page_size_padded=cache.mamba_page_size_padded,
            mamba_cache_mode=cache.mamba_cache_mode,
            num_speculative_blocks=case.draft_tokens,
        )
    return made


def draft_specs(case: Case, config: Any) -> dict[str, KVCacheSpec]:
    """The draft model's layers; beside a sharded target they are replicated."""
    found: dict[str, KVCacheSpec] = {}
    draft = case.draft or {"layer_types": ()}
    for index, kind in enumerate(draft["layer_types"]):
        window = draft["sliding_window"] if kind == "sliding_attention" else None
        own = case.cache_dtype if case.method == "draft_model" else "auto"
        spec = attention(case, config, window, of=draft, cache_dtype=own)
        found[f"draft.{index}"] = replace(spec, dcp_sharded=False) if case.dcp > 1 else spec
    return found


def layer_specs(case: Case, config: Any) -> dict[str, KVCacheSpec]:
    """Every layer's cache in the order in which the engine registers layers."""
    text = case.text
    heads = text["mtp_num_hidden_layers"] if case.method == "mtp" else 0
    found: dict[str, KVCacheSpec] = {}
    for index, kind in enumerate([*text["layer_types"], *["full_attention"] * heads]):
        if kind == "linear_attention":
            found |= recurrent_specs(case, config, index)
            continue
        window = text["sliding_window"] if kind == "sliding_attention" else None
        found[f"{index}.main"] = attention(case, config, window, of=text, cache_dtype=case.cache_dtype)
        found |= selector(case, config, index) if "indexer_n_heads" in text else {}
    return found | draft_specs(case, config)


def pages(case: Case) -> list[tuple[int, int]]:
    """Tokens and bytes of every layer's block, before any grouping."""
    config = vllm_config(case)
    align(case, config)
    return sorted((spec.block_size, spec.page_size_bytes) for spec in layer_specs(case, config).values())


def answer(case: Case, memory_bytes: int) -> Answer:
    """Ask the engine; it raises ValueError where one request of the longest length does not fit."""
    config = vllm_config(case)
    align(case, config)
    specs = layer_specs(case, config)
    sparse = "indexer_n_heads" in case.text
    layouts = CPU_LAYOUTS if case.engine == "cpu" else SPARSE_LAYOUTS if sparse else ANY_LAYOUTS
    resolve_kv_cache_layout(config, [layouts], specs.values())
    result = get_kv_cache_configs(config, [specs], [memory_bytes])[0]
    scheduler = generate_scheduler_kv_cache_config([result])
    tokens, concurrency = get_kv_cache_capacity(config, scheduler)
    return Answer(
        block_size=config.cache_config.block_size,
        bytes_per_block=_pool_bytes_per_block(config, result.kv_cache_groups),
        blocks=result.num_blocks,
        groups=len(result.kv_cache_groups),
        tokens=tokens,
        concurrency=concurrency,
    )


def spec_of(cache: Any) -> KVCacheSpec:
    """The engine's counterpart of one of the toolkit's caches, for tests of the grouping alone."""
    if isinstance(cache, StateCache):
        return MambaSpec(
            shapes=((cache.state_bytes,),),
            dtypes=(torch.uint8,),
            block_size=cache.block_tokens,
            page_size_padded=cache.padded_page,
            num_speculative_blocks=cache.slots - 1,
            tp_replicated=cache.replicated,
        )
    quantized = cache.dtype.startswith("fp8")
    shared = {
        "block_size": cache.block_tokens,
        "num_kv_heads": cache.kv_heads,
        "head_size": cache.key_dim,
        "dtype": torch.uint8 if quantized else DTYPES[cache.dtype],
        "kv_quant_mode": get_kv_quant_mode(cache.dtype if quantized else "auto"),
        "dcp_sharded": cache.sharded,
    }
    if isinstance(cache, CompressedCache):
        return MLAAttentionSpec(tokens_per_state=cache.tokens_per_state, **shared)
    shared |= {"head_size_v": cache.value_dim}
    if isinstance(cache, RingCache):
        return CircularBufferSpec(**shared)
    if isinstance(cache, SlidingCache):
        return SlidingWindowSpec(sliding_window=cache.window, **shared)
    return FullAttentionSpec(**shared)


def group_answer(caches: dict[str, Any], load: Load, layout: str, extra_tokens: int, memory_bytes: int) -> Answer:
    """Group these caches as the engine would."""
    config = vllm_config(Case(text={}, max_model_len=load.max_model_len, dcp=load.dcp))
    config.max_in_flight_tokens = load.in_flight_tokens
    config.num_prefill_lookahead_tokens = extra_tokens + 1
    config.cache_config.mamba_cache_mode = "none"
    config.cache_config.kv_cache_layout = layout
    result = get_kv_cache_configs(config, [{name: spec_of(cache) for name, cache in caches.items()}], [memory_bytes])[0]
    tokens, concurrency = get_kv_cache_capacity(config, result)
    size = _pool_bytes_per_block(config, result.kv_cache_groups)
    return Answer(0, size, result.num_blocks, len(result.kv_cache_groups), tokens, concurrency)
