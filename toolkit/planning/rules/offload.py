"""Rules about keys and values that leave the GPU: what may be kept elsewhere and loaded back."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.extra_arguments import given, value_of
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes, unknown

OFFLOADING = ("--kv-offloading-size", "--kv-transfer-config")
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
SEGMENTS = "expandable_segments:True"
OWN_POOL = ("--enable-sleep-mode", "--enable-cumem-allocator")
"""Arguments with which the cache lies in a pool of its own, where memory is never moved."""


def offloads(config: DeploymentConfig) -> bool:
    """Whether keys and values are kept outside the GPU as well."""
    return value_of(config.engine.extra_arguments, *OFFLOADING) is not None


def offload_moving_memory(context: Context) -> Iterator[Problem]:
    """A connector keeps addresses of the cache, and expandable segments may put other memory behind them."""
    engine = context.config.engine
    if not offloads(context.config) or given(engine.extra_arguments, *OWN_POOL):
        return
    if SEGMENTS in engine.environment.get(ALLOCATOR, ""):
        yield Problem(
            f"engine.environment.{ALLOCATOR}",
            f"the engine refuses to keep KV blocks elsewhere with {SEGMENTS}",
            f"leave {SEGMENTS} out of it, or the KV offload out of engine.extra_arguments",
        )
    elif ALLOCATOR in engine.inherit and ALLOCATOR not in engine.environment:
        yield unknown("engine.inherit", f"the shell's {ALLOCATOR} is not recorded", f"take {ALLOCATOR} out of it")


def offload_every_state(context: Context) -> Iterator[Problem]:
    """Where every block's state is kept, one with the prompt's last token is loaded, and that token applied twice."""
    arguments = context.config.engine.extra_arguments
    if not offloads(context.config) or value_of(arguments, "--mamba-cache-mode") != "all":
        return
    if context.geometry is None:
        yield no_shapes()
    elif context.geometry.recurrent is not None:
        yield Problem(
            "engine.extra_arguments",
            "prompts that end with a block are answered wrongly once they are loaded back: --mamba-cache-mode=all "
            "applies their last token twice",
            "use --mamba-cache-mode=align",
        )


def offload_recurrent_state(context: Context) -> Iterator[Problem]:
    """A recurrent state is right for one position alone, and loading it back went wrong in several releases."""
    if not offloads(context.config):
        return
    if context.geometry is None:
        yield no_shapes()
    elif context.geometry.recurrent is not None:
        yield Problem(
            "engine.extra_arguments",
            "the model has recurrent states, and nobody has shown here that they are loaded back right",
            "compare answers to repeated prompts with those of a server without KV offload first, or leave it out",
        )


def offload_on_cpu(context: Context) -> Iterator[Problem]:
    """What leaves a GPU goes to the machine's memory, where the CPU engine's cache already is."""
    engine = context.config.engine
    if engine.name is EngineName.cpu and value_of(engine.extra_arguments, OFFLOADING[0]) is not None:
        yield Problem(
            "engine.extra_arguments",
            f"the CPU engine ends at its start with {OFFLOADING[0]}",
            f"leave {OFFLOADING[0]} out, and set limits.kv_cache_memory_bytes for a larger cache",
        )


RULES = (
    Rule(
        "offload-on-cpu",
        "KV blocks are offloaded from GPUs alone",
        Severity.refuse,
        offload_on_cpu,
        "vLLM 0.32 v1/kv_offload/cpu/spec.py",
    ),
    Rule(
        "offload-moving-memory",
        "Offloaded KV blocks stay where they are",
        Severity.refuse,
        offload_moving_memory,
        "vLLM 0.32 config/vllm.py: _verify_kv_transfer_compat; 1CatAI/1Cat-vLLM pull request 248",
    ),
    Rule(
        "offload-every-state",
        "Offloaded states are loaded at the right position",
        Severity.refuse,
        offload_every_state,
        "vllm-project/vllm issue 51094; vLLM 0.32 distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py: "
        "resolve_mamba_align_size",
    ),
    Rule(
        "offload-recurrent-state",
        "Recurrent states stay on the GPU",
        Severity.warn,
        offload_recurrent_state,
        "1CatAI/1Cat-vLLM pull requests 247 and 249",
    ),
)
