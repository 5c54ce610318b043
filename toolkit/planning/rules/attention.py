"""Rules about attention: head sizes, and the KV dtype against what the checkpoint stores."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.planning.command import kv_cache_dtype
from toolkit.planning.geometry.quantization import Quantization, kv_dtype_of
from toolkit.planning.geometry.scales import kv_scales
from toolkit.planning.plan import Severity
from toolkit.planning.rules.gpus import on_gpu
from toolkit.planning.rules.parallelism import text_config
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes, no_tensors, unknown

HEAD_DIMS = (64, 128, 256)
"""Head sizes that the SM70 attention kernels are written for."""
WIDEST_KEY = 256
"""Elements of a recurrent key that upstream's kernels hold."""
COMPILED = (128, 128)
"""Elements of a recurrent key and value for which docs/triton-sm70.md has the shared memory."""
MOST_EXPERTS = 4096
"""Counters that kernels/cuda/moe_align.cu has room for."""


def head_size_without_kernel(context: Context) -> Iterator[Problem]:
    """A tile of a wider head does not fit into the 96 KiB of shared memory that a block has on a V100."""
    if not on_gpu(context):
        return
    if context.geometry is None:
        yield no_shapes()
        return
    wide = text_config(context.checkpoint.config).get("global_head_dim")  # layers without a window may have wider heads
    sizes = [context.geometry.attention.head_dim]
    if type(wide) is int and wide not in sizes:
        sizes.append(wide)
    for size in sizes:
        if size not in HEAD_DIMS:
            yield Problem(
                "checkpoint",
                f"heads have {size} elements, and SM70 attention is made for {', '.join(map(str, HEAD_DIMS))}",
                "choose a model with one of these head sizes",
            )


def recurrent_head_without_kernel(context: Context) -> Iterator[Problem]:
    """The kernels of gated delta nets hold a head in four tiles of 64 elements and no more."""
    if not on_gpu(context):
        return
    if context.geometry is None:
        yield no_shapes()
        return
    recurrent = context.geometry.recurrent
    if recurrent is None:
        return
    if recurrent.key_dim > WIDEST_KEY:
        yield Problem(
            "checkpoint",
            f"recurrent keys have {recurrent.key_dim} elements, and the kernels take {WIDEST_KEY} at most",
            "choose another model",
        )
    elif (recurrent.key_dim, recurrent.value_dim) != COMPILED:
        yield unknown(
            "checkpoint",
            f"recurrent heads of {recurrent.key_dim} and {recurrent.value_dim} elements were not compiled for sm_70, "
            "and may need more than 96 KiB of shared memory",
        )


def experts_without_kernel(context: Context) -> Iterator[Problem]:
    """Tokens are sorted by expert in shared memory, which has a counter for each."""
    if not on_gpu(context):
        return
    if context.geometry is None:
        yield no_shapes()
        return
    experts = context.geometry.experts
    if experts is not None and experts.count > MOST_EXPERTS:
        yield Problem(
            "checkpoint",
            f"the model has {experts.count:,} experts, and the kernels sort by {MOST_EXPERTS:,} at most",
            "choose another model",
        )


def latent_attention(context: Context) -> Iterator[Problem]:
    """Decoding from a latent cache takes more shared memory than the 96 KiB of a V100."""
    if on_gpu(context) and "kv_lora_rank" in text_config(context.checkpoint.config):
        yield Problem(
            "checkpoint",
            "the model has multi-head latent attention, whose decoding overflows a V100's shared memory",
            "choose a model with grouped-query attention",
        )


def kv_follows_checkpoint(context: Context) -> Iterator[Problem]:
    """Told to choose by itself, the engine takes the KV dtype that the checkpoint was calibrated for."""
    if kv_cache_dtype(context.config) != "auto":
        return
    if context.geometry is None:
        yield no_shapes()
    elif kv_dtype_of(context.geometry.quantization.kv_cache) is not None:
        yield Problem(
            "kv.dtype",
            "the checkpoint has a KV cache scheme, and the engine would take FP8 for a 16-bit cache",
            "use kv=fp8_e4m3, for which the checkpoint was calibrated",
        )


def e5m2_with_stored_scales(context: Context) -> Iterator[Problem]:
    """E5M2 has unit scales; the engine refuses it where the checkpoint may bring others."""
    if context.config.kv.dtype != "fp8_e5m2":
        return
    if context.geometry is None:
        yield no_shapes()
    elif _may_bring_scales(context.geometry.quantization):
        yield Problem(
            "kv.dtype",
            f"the engine refuses an E5M2 cache for checkpoints written by '{context.geometry.quantization.container}', "
            "as they may bring KV scales",
            "use kv=fp8_e4m3 or kv=float16",
        )


def _may_bring_scales(quantization: Quantization) -> bool:
    if quantization.container in ("modelopt", "fp8"):
        return True
    return quantization.container == "compressed-tensors" and quantization.kv_cache is not None


def kv_scales_missing(context: Context) -> Iterator[Problem]:
    """A layer without its scale falls back to 1.0, silently and beside layers that have theirs."""
    config = context.config
    if config.kv.dtype != "fp8_e4m3" or config.overlay.name != "none" or not config.overlay.strict:
        return
    if context.geometry is None:
        yield no_shapes()
        return
    if not context.checkpoint.tensors:
        yield no_tensors("kv.dtype")
        return
    scaled = kv_scales(context.checkpoint.tensors)
    whole = sum(1 for layer, kinds in scaled.items() if len(kinds) == 2 and not layer.startswith("mtp."))
    if scaled and whole < context.geometry.attention_layers:
        yield Problem(
            "checkpoint",
            f"{whole} of {context.geometry.attention_layers} attention layers have both KV scales; the others "
            "would take 1.0",
            "choose an overlay that has them all, or set overlay.strict=false",
        )


def kv_unit_scales(context: Context) -> Iterator[Problem]:
    """Without calibrated scales an E4M3 cache clips what is above 448."""
    config, tensors = context.config, context.checkpoint.tensors
    if config.kv.dtype == "fp8_e4m3" and config.overlay.name == "none" and tensors and not kv_scales(tensors):
        yield Problem("kv.dtype", "the checkpoint has no KV scales, so an E4M3 cache takes 1.0 and clips at 448")


def overlay_unused(context: Context) -> Iterator[Problem]:
    """Only an E4M3 cache reads scales."""
    config = context.config
    if config.overlay.name != "none" and config.kv.dtype != "fp8_e4m3":
        yield Problem(
            "overlay",
            f"the scales of '{config.overlay.name}' are for E4M3, and a {config.kv.dtype} cache does not read them",
            "use kv=fp8_e4m3 or overlay=none",
        )


RULES = (
    Rule(
        "head-size-without-kernel",
        "There is attention for this head size",
        Severity.refuse,
        head_size_without_kernel,
        "1CatAI/1Cat-vLLM issue 40; ZRayZzz/flash-attention-v100 issue 8",
    ),
    Rule(
        "recurrent-head-without-kernel",
        "Recurrent heads fit into shared memory",
        Severity.refuse,
        recurrent_head_without_kernel,
        "docs/triton-sm70.md, and vLLM 0.32 third_party/flash_linear_attention/ops/chunk_delta_h.py",
    ),
    Rule(
        "experts-without-kernel",
        "The experts fit into shared memory",
        Severity.refuse,
        experts_without_kernel,
        "docs/operators.md, operator moe_align_block_size",
    ),
    Rule(
        "latent-attention",
        "Attention fits into shared memory",
        Severity.refuse,
        latent_attention,
        "1CatAI/1Cat-vLLM issues 125 and 211",
    ),
    Rule(
        "kv-follows-checkpoint",
        "A 16-bit cache stays one",
        Severity.refuse,
        kv_follows_checkpoint,
        "1CatAI/1Cat-vLLM issue 613; vLLM 0.32 model_executor/layers/attention/attention.py",
    ),
    Rule(
        "e5m2-with-stored-scales",
        "E5M2 is for checkpoints without KV scales",
        Severity.refuse,
        e5m2_with_stored_scales,
        "1CatAI/1Cat-vLLM issues 615, 49, 54 and 88; vLLM 0.32 model_executor/layers/attention/attention.py",
    ),
    Rule(
        "kv-scales-missing",
        "Either all layers have KV scales or none",
        Severity.refuse,
        kv_scales_missing,
        "vLLM 0.32 model_executor/layers/quantization/kv_cache.py",
    ),
    Rule(
        "kv-unit-scales",
        "An E4M3 cache has calibrated scales",
        Severity.info,
        kv_unit_scales,
        "vLLM documentation, page 'Quantized KV Cache'",
    ),
    Rule(
        "overlay-unused",
        "An overlay's scales are read",
        Severity.warn,
        overlay_unused,
        "docs/materialize.md",
    ),
)
