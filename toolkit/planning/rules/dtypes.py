"""Rules about element types."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.views import ScaleValues
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes

KV_DTYPES = ("float16", "fp8_e4m3", "fp8_e5m2")
ENGINE_DTYPES = {EngineName.cpu: ("float16", "float32", "bfloat16"), EngineName.v100: ("float16",)}
ALIASES = {"fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32", "bf16": "bfloat16"}


def kv_dtype_ambiguous(context: Context) -> Iterator[Problem]:
    """`fp8` names two formats."""
    if context.config.kv.dtype == "fp8":
        yield Problem(
            "kv.dtype",
            "fp8 does not say which format is meant: E4M3 is more precise and wants calibrated scales, "
            "E5M2 has more range and uses unit scales",
            "write kv=fp8_e4m3 or kv=fp8_e5m2",
        )


def kv_dtype_unknown(context: Context) -> Iterator[Problem]:
    """A KV dtype that no engine of ours stores."""
    dtype = context.config.kv.dtype
    if dtype not in (*KV_DTYPES, "fp8"):
        yield Problem("kv.dtype", f"'{dtype}' is no KV dtype of these engines", f"choose kv={' or '.join(KV_DTYPES)}")


def kv_wider_than_engine(context: Context) -> Iterator[Problem]:
    """A 16-bit cache under activations of another type has no kernel."""
    kv, engine = context.config.kv.dtype, context.config.engine
    if kv == "float16" != engine.dtype and engine.dtype in ENGINE_DTYPES[engine.name]:
        yield Problem(
            "kv.dtype", f"a float16 KV cache under {engine.dtype} activations has no kernel", "set engine.dtype=float16"
        )


def engine_dtype_unknown(context: Context) -> Iterator[Problem]:
    """An element type that the engine does not compute in."""
    engine = context.config.engine
    allowed = ENGINE_DTYPES[engine.name]
    if engine.dtype not in (*allowed, "bfloat16"):  # which a rule of its own explains
        meant = [name for name in allowed if name == ALIASES.get(engine.dtype)]
        yield Problem(
            "engine.dtype",
            f"engine={engine.name.value} cannot compute in '{engine.dtype}'"
            + "".join(f"; did you mean {name}?" for name in meant),
            f"choose engine.dtype={' or '.join(meant or allowed)}",
        )


def recurrent_states_on_cpu(context: Context) -> Iterator[Problem]:
    """The CPU engine's gated delta nets are written for bfloat16 alone, and say so at the first request."""
    engine = context.config.engine
    if engine.name is not EngineName.cpu or engine.dtype == "bfloat16":
        return
    if context.geometry is None:
        yield no_shapes()
    elif context.geometry.recurrent is not None:
        yield Problem(
            "engine.dtype",
            f"in {engine.dtype} the CPU engine ends at the first request: it has gated delta nets for bfloat16 alone",
            "set engine.dtype=bfloat16 and kv=fp8_e4m3",
        )


def bfloat16_on_sm70(context: Context) -> Iterator[Problem]:
    """Volta has no bfloat16 arithmetic."""
    engine = context.config.engine
    if engine.name is EngineName.v100 and engine.dtype == "bfloat16":
        yield Problem(
            "engine.dtype",
            "compute capability 7.0 has no bfloat16; the engine refuses it at start",
            "set engine.dtype=float16; a bfloat16 checkpoint is cast when it is loaded",
        )


def scales_without_fp8(context: Context) -> Iterator[Problem]:
    """Scales are what FP8 values are multiplied by; a wider cache has none."""
    config = context.config
    overlay, unit = config.overlay, config.views.scales is ScaleValues.unit
    given = overlay.name != "none" or overlay.path or overlay.repository or unit
    if given and config.kv.dtype in KV_DTYPES and not config.kv.dtype.startswith("fp8"):
        yield Problem(
            "views.scales" if unit else "overlay",
            f"KV scales are given, and a {config.kv.dtype} cache uses none",
            "set kv=fp8_e4m3, or overlay=none",
        )


RULES = (
    Rule(
        "kv-dtype-ambiguous",
        "The KV dtype names one format",
        Severity.refuse,
        kv_dtype_ambiguous,
        "1CatAI/1Cat-vLLM issue 27; vLLM 0.32 config/cache.py: CacheDType",
    ),
    Rule(
        "kv-dtype-unknown",
        "The KV dtype is one that the engines store",
        Severity.refuse,
        kv_dtype_unknown,
        "docs/config.md, section 'kv'",
    ),
    Rule(
        "kv-wider-than-engine",
        "A 16-bit cache matches the activations",
        Severity.refuse,
        kv_wider_than_engine,
        "vLLM 0.32 v1/attention/backend.py: validate_configuration",
    ),
    Rule(
        "scales-without-fp8",
        "KV scales belong to an FP8 cache",
        Severity.refuse,
        scales_without_fp8,
        "docs/materialize.md",
    ),
    Rule(
        "engine-dtype-unknown",
        "The engine computes in this element type",
        Severity.refuse,
        engine_dtype_unknown,
        "vLLM 0.32 config/model.py: _get_and_verify_dtype",
    ),
    Rule(
        "recurrent-dtype-on-cpu",
        "The CPU engine computes recurrent layers in bfloat16",
        Severity.refuse,
        recurrent_states_on_cpu,
        "vLLM 0.32 model_executor/layers/mamba/ops/cpu/gdn_attention.py: cpu_gdn_attention_core",
    ),
    Rule(
        "bf16-on-sm70",
        "No bfloat16 on compute capability 7.0",
        Severity.refuse,
        bfloat16_on_sm70,
        "vllm-project/vllm issues 946 and 730",
    ),
)
