"""Rules about the engine's own arguments and what they do to the plan."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.planning.engine_arguments import canonical
from toolkit.planning.extra_arguments import largest_graph, takes
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes

PLANNED = {
    "--model": "checkpoint.source.path", "--served-model-name": "checkpoint.name", "--host": "server.host",
    "--port": "server.port", "--dtype": "engine.dtype", "--kv-cache-dtype": "kv.dtype",
    "--max-model-len": "limits.max_model_len", "--max-num-seqs": "limits.max_num_seqs",
    "--max-num-batched-tokens": "limits.max_num_batched_tokens", "--block-size": "limits.block_size",
    "--kv-cache-memory-bytes": "limits.kv_cache_memory_bytes",
    "--gpu-memory-utilization": "limits.gpu_memory_utilization",
    "--enable-prefix-caching": "limits.prefix_caching", "--no-enable-prefix-caching": "limits.prefix_caching",
    "--tensor-parallel-size": "limits.tensor_parallel", "-tp": "limits.tensor_parallel",
    "--decode-context-parallel-size": "dcp.size", "-dcp": "dcp.size",
    "--dcp-kv-cache-interleave-size": "dcp.interleave", "--speculative-config": "speculative",
    "-sc": "speculative", "--additional-config": "switches", "--worker-cls": "engine.name",
    "--enforce-eager": "engine.compile", "--no-enforce-eager": "engine.compile",
    "--engram-config": "limits.ngram_embedding", "--api-key": "server.api_key_file", "--uds": "server.host",
}  # fmt: skip
"""Arguments that the plan writes itself, and the options that they come from."""
SMALL_GPU = 17 * 10**9
"""Bytes above those of a 16 GB card, and below those of the next larger one."""


def argument_beside_plan(context: Context) -> Iterator[Problem]:
    """The engine takes the last of two arguments, so one that is added changes what was planned."""
    for argument in context.config.engine.extra_arguments:
        name = (canonical(argument) or "").partition(".")[0]
        if name in PLANNED:
            yield Problem(
                "engine.extra_arguments",
                f"{name} would overrule what the plan was made with",
                f"set {PLANNED[name]} instead",
            )


def graphs_too_small(context: Context) -> Iterator[Problem]:
    """A step with more rows than the largest captured graph runs without one."""
    config = context.config
    if not config.engine.compile:
        return
    rows = config.limits.max_num_seqs * (1 + config.speculative.tokens)
    largest = largest_graph(config.engine.extra_arguments)
    if largest < rows:
        yield Problem(
            "limits.max_num_seqs",
            f"a step of all {config.limits.max_num_seqs} requests has {rows} rows, and graphs are captured up to "
            f"{largest}: larger steps run without",
            f"add --max-cudagraph-capture-size={rows} to engine.extra_arguments, or lower limits.max_num_seqs",
        )


def images_on_small_gpu(context: Context) -> Iterator[Problem]:
    """The encoder's buffers are taken beside weights and cache, and a 16 GB card has no room for them."""
    config = context.config
    if not 0 < config.hardware.gpu_memory_bytes < SMALL_GPU or not takes(config.engine.extra_arguments, "image"):
        return
    if context.geometry is None:
        yield no_shapes()
    elif takes_images(context.geometry):
        yield Problem(
            "engine.extra_arguments",
            "the model takes images, whose encoder needs room that a 16 GB card hardly has",
            "add --language-model-only to engine.extra_arguments to serve text alone, or plan a shorter context",
        )


def takes_images(geometry: ModelGeometry) -> bool:
    """Whether a model has an encoder for images."""
    return geometry.vision is not None or geometry.architecture.endswith("ForConditionalGeneration")


RULES = (
    Rule(
        "argument-beside-plan",
        "No argument overrules the plan",
        Severity.refuse,
        argument_beside_plan,
        "docs/config.md, section 'engine'",
    ),
    Rule(
        "graphs-too-small",
        "Captured graphs cover all requests",
        Severity.warn,
        graphs_too_small,
        "1CatAI/1Cat-vLLM issues 89 and 120",
    ),
    Rule(
        "images-on-small-gpu",
        "Images fit beside the model",
        Severity.warn,
        images_on_small_gpu,
        "1CatAI/1Cat-vLLM issue 8",
    ),
)
