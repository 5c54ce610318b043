"""Rules about what engine=v100 has no route for in this release, so that nobody learns it from a failing start."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.planning.extra_arguments import given, value_of
from toolkit.planning.geometry.model import LayerKind
from toolkit.planning.geometry.quantization import Scheme
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes

PAGE = "docs/v100.md"
ATTENTION = "TRITON_ATTN"
CHOOSING = (ATTENTION, "AUTO")
"""What `--attention-backend` may be, in any case of letters; AUTO leaves the choice to the platform."""
BY_TILELANG = ("DeepseekV4", "DeepSeekV4", "Glm5Next")
"""Beginnings of the architectures whose code in vLLM 0.32 imports TileLang's kernels."""


def no_sharded_attention(context: Context) -> Iterator[Problem]:
    """The Triton attention that SM70 takes keeps no log-sum-exp that ranks could merge."""
    if context.config.engine.name is EngineName.v100 and context.config.dcp.size > 1:
        yield Problem("dcp.size", "engine=v100 has no attention that shards the KV cache yet", "use dcp=1")


def no_quantised_products(context: Context) -> Iterator[Problem]:
    """Upstream's kernels for quantised weights need a newer GPU, and ours do not exist yet."""
    if context.config.engine.name is not EngineName.v100:
        return
    if context.geometry is None:
        yield no_shapes()
        return
    scheme = context.geometry.quantization.scheme
    if scheme not in (Scheme.none, Scheme.unknown):
        yield Problem(
            "checkpoint", f"engine=v100 has no product for {scheme.value} weights yet", "use a checkpoint in 16 bits"
        )


def no_sparse_attention(context: Context) -> Iterator[Problem]:
    """Qwen4Exp's attention is written for BF16 and for more shared memory than SM70 has."""
    if context.config.engine.name is not EngineName.v100:
        return
    if context.geometry is None:
        yield no_shapes()
    elif LayerKind.sparse in context.geometry.layers:
        yield Problem("checkpoint", "engine=v100 has no sparse attention (Qwen4Exp) yet", "use another model")


def no_block_drafts(context: Context) -> Iterator[Problem]:
    """DFlash2 drafts have not been run on SM70's routes."""
    config = context.config
    if config.engine.name is EngineName.v100 and config.speculative.method == "dflash2":
        yield Problem(
            "speculative.method", "engine=v100 does not serve DFlash2 drafts yet", "use speculative=mtp3, ngram or none"
        )


def no_other_attention(context: Context) -> Iterator[Problem]:
    """Upstream's other kernels for attention need a newer GPU, and the fork's are not in this engine."""
    asked = value_of(context.config.engine.extra_arguments, "--attention-backend")
    if context.config.engine.name is EngineName.v100 and asked is not None and asked.upper() not in CHOOSING:
        yield Problem(
            "engine.extra_arguments",
            f"engine=v100 computes attention by {ATTENTION}, and not by {asked}",
            "leave --attention-backend out",
        )


def no_kernels_at_run_time(context: Context) -> Iterator[Problem]:
    """The hyper-connections of these models are TileLang's, which compiles at the start and fails for SM70."""
    if context.config.engine.name is not EngineName.v100:
        return
    named = context.checkpoint.config.get("architectures")
    for architecture in named if isinstance(named, list) else ():
        if str(architecture).startswith(BY_TILELANG):
            yield Problem(
                "checkpoint",
                f"engine=v100 has no kernels for {architecture}: vLLM compiles them with TileLang at the start",
                "use another model",
            )


def no_adapters_on_experts(context: Context) -> Iterator[Problem]:
    """Upstream's kernel for adapters on experts is another one than for projections, and SM70 has not tried it."""
    engine = context.config.engine
    if engine.name is not EngineName.v100 or not given(engine.extra_arguments, "--enable-lora"):
        return
    if context.geometry is None:
        yield no_shapes()
    elif context.geometry.experts is not None:
        yield Problem(
            "engine.extra_arguments",
            "engine=v100 has no adapters (LoRA) for models with experts yet",
            "leave out --enable-lora, or merge the adapter into a checkpoint",
        )


RULES = (
    Rule("route-dcp", "engine=v100 has attention for this sharding", Severity.refuse, no_sharded_attention, PAGE),
    Rule("route-quantised", "engine=v100 has products for these weights", Severity.refuse, no_quantised_products, PAGE),
    Rule("route-sparse", "engine=v100 has attention for this model", Severity.refuse, no_sparse_attention, PAGE),
    Rule("route-drafts", "engine=v100 serves this draft", Severity.refuse, no_block_drafts, PAGE),
    Rule(
        "route-attention",
        "engine=v100 has the attention that is asked for",
        Severity.refuse,
        no_other_attention,
        "vllm-project/vllm issues 13398, 6173 and 7844; vLLM 0.32 platforms/cuda.py: get_attn_backend_cls",
    ),
    Rule(
        "route-just-in-time",
        "engine=v100 compiles nothing with TileLang",
        Severity.refuse,
        no_kernels_at_run_time,
        "1CatAI/1Cat-vLLM issues 105, 118 and 237; vLLM 0.32 model_executor/kernels/mhc/tilelang_kernels.py",
    ),
    Rule("route-adapters", "engine=v100 serves adapters of this model", Severity.refuse, no_adapters_on_experts, PAGE),
)
