"""Rules about weights: their format, and how layers of that format divide over ranks."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.errors import ConfigurationError
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.quantization import Quantization, Scheme
from toolkit.planning.geometry.shards import projections
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes, unknown

WITHOUT_KERNEL = {
    EngineName.v100: {Scheme.int8_channel: "compute capability 7.0 has no INT8 tensor products"},
    EngineName.cpu: {Scheme.nvfp4: "the CPU engine has no product for 4-bit floats"},
}
ELSEWHERE = {
    EngineName.v100: "use a checkpoint in 16 bits, FP8, NVFP4 or 4-bit integers",
    EngineName.cpu: "use a checkpoint in 16 bits, or engine=v100",
}
KEPT = ("lm_head", "mlp.gate")
"""Linear layers that published quantised checkpoints of these families keep in 16 bits."""


def format_without_kernel(context: Context) -> Iterator[Problem]:
    """A weight format that the engine has no product for."""
    if context.geometry is None:
        yield no_shapes()
        return
    engine, quantization = context.config.engine.name, context.geometry.quantization
    for scheme in quantization.parts or (quantization.scheme,):
        reason = WITHOUT_KERNEL[engine].get(scheme)
        if reason is not None:
            yield Problem("checkpoint", f"its weights are {scheme.value}, and {reason}", ELSEWHERE[engine])


def format_unknown(context: Context) -> Iterator[Problem]:
    """A weight format that is not recognised may or may not be served."""
    quantization = context.geometry.quantization if context.geometry is not None else Quantization()
    if quantization.container == "gguf":
        yield unknown("checkpoint", "GGUF weights are not known to be served right", "convert them to safetensors")
    elif Scheme.unknown in (quantization.scheme, *quantization.parts):
        yield unknown("checkpoint", f"the weight format '{quantization.container}' is not known")


def widths_not_divisible(context: Context) -> Iterator[Problem]:
    """Each rank takes the same share of every feed-forward layer and every expert."""
    if context.geometry is None:
        yield no_shapes()
        return
    ranks = context.config.limits.tensor_parallel
    for what, width in _widths(context.geometry):
        if width % ranks:
            yield Problem(
                "limits.tensor_parallel",
                f"{what} of {width:,} columns does not divide over {ranks} ranks",
                "use a limits.tensor_parallel that divides it",
            )


def _widths(geometry: ModelGeometry) -> Iterator[tuple[str, int]]:
    experts = geometry.experts
    if geometry.intermediate_size:
        yield "a feed-forward layer", geometry.intermediate_size
    if experts is not None:
        yield "an expert", experts.intermediate_size
        if experts.shared_intermediate_size:
            yield "the shared expert", experts.shared_intermediate_size


def recurrent_heads_not_divisible(context: Context) -> Iterator[Problem]:
    """Each rank takes the same number of a gated delta net's heads."""
    if context.geometry is None:
        yield no_shapes()
        return
    recurrent, ranks = context.geometry.recurrent, context.config.limits.tensor_parallel
    if recurrent is None:
        return
    for what, heads in (("key", recurrent.key_heads), ("value", recurrent.value_heads)):
        if heads % ranks:
            yield Problem(
                "limits.tensor_parallel",
                f"{heads} recurrent {what} heads do not divide over {ranks} ranks",
                "use a limits.tensor_parallel that divides them",
            )


def scales_not_divisible(context: Context) -> Iterator[Problem]:
    """A rank's share of a quantised layer must end where a group of weights with one scale ends."""
    if context.geometry is None:
        yield no_shapes()
        return
    quantization, ranks = context.geometry.quantization, context.config.limits.tensor_parallel
    columns = quantization.block[-1] if quantization.block else quantization.group_size
    if columns is None:
        return
    try:
        shares = projections(context.geometry, ranks)
    except ConfigurationError:
        return  # heads or widths do not divide, which other rules say
    for share in shares:
        if share.name not in KEPT and share.columns % columns:
            yield Problem(
                "limits.tensor_parallel",
                f"a rank's {share.columns:,} input columns of {share.name} are no multiple of {columns}, the weights "
                "that share a scale",
                "use a smaller limits.tensor_parallel",
            )


RULES = (
    Rule(
        "format-without-kernel",
        "The engine computes with this weight format",
        Severity.refuse,
        format_without_kernel,
        "vLLM documentation, page 'Supported Hardware' of quantization",
    ),
    Rule(
        "format-unknown",
        "The weight format is a known one",
        Severity.unchecked,
        format_unknown,
        "1CatAI/1Cat-vLLM issue 83",
    ),
    Rule(
        "widths-not-divisible",
        "Feed-forward layers and experts divide over the ranks",
        Severity.refuse,
        widths_not_divisible,
        "vLLM 0.32 distributed/utils.py: ensure_divisibility",
    ),
    Rule(
        "recurrent-heads-not-divisible",
        "Recurrent heads divide over the ranks",
        Severity.refuse,
        recurrent_heads_not_divisible,
        "vLLM 0.32 distributed/utils.py: ensure_divisibility",
    ),
    Rule(
        "scales-not-divisible",
        "Groups of quantised weights divide over the ranks",
        Severity.refuse,
        scales_not_divisible,
        "vLLM 0.32 model_executor/layers/quantization/utils/fp8_utils.py: validate_fp8_block_shape",
    ),
)
