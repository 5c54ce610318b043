"""Cases of rules about keys and values that leave the GPU: see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.planning.plan import Severity

config, llama, hybrid = cases.config, cases.llama, cases.hybrid
NOTHING = cases.facts(config={})
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
MOVING, EVERY, STATE = "offload-moving-memory", "offload-every-state", "offload-recurrent-state"
OFFLOADS = (
    ["--kv-offloading-size=8"],
    ["--kv-offloading-size", "8"],
    ["--kv-transfer-config", "{}"],
)
SEGMENTS = {ALLOCATOR: "max_split_size_mb:64,expandable_segments:True"}
REFUSES = (
    f"engine.environment.{ALLOCATOR}",
    "the engine refuses to keep KV blocks elsewhere with expandable_segments:True",
    "leave expandable_segments:True out of it, or the KV offload out of engine.extra_arguments",
)
TWICE = (
    "engine.extra_arguments",
    (
        "prompts that end with a block are answered wrongly once they are loaded back: --mamba-cache-mode=all applies "
        "their last token twice"
    ),
    "use --mamba-cache-mode=align",
)
NOT_SHOWN = (
    "engine.extra_arguments",
    "the model has recurrent states, and nobody has shown here that they are loaded back right",
    "compare answers to repeated prompts with those of a server without KV offload first, or leave it out",
)
SHELLS = f"the shell's {ALLOCATOR} is not recorded"


def with_arguments(*arguments, **changes):
    return config(engine__extra_arguments=list(arguments), **changes)


def no_shapes(rule, *arguments):
    fact = "the model's shapes are not known"
    return waits(rule, "checkpoint", fact, with_arguments(*OFFLOADS[0], *arguments), checkpoint=NOTHING)


CASES = [
    *(Case(MOVING, REFUSES, with_arguments(*asked, engine__environment=SEGMENTS)) for asked in OFFLOADS),
    Case(MOVING, None, with_arguments(engine__environment=SEGMENTS)),
    Case(MOVING, None, with_arguments(*OFFLOADS[0])),
    Case(MOVING, None, with_arguments(*OFFLOADS[0], engine__environment={ALLOCATOR: "expandable_segments:False"})),
    Case(MOVING, None, with_arguments(*OFFLOADS[0], "--enable-sleep-mode", engine__environment=SEGMENTS)),
    Case(MOVING, None, with_arguments(*OFFLOADS[0], "--enable-cumem-allocator", engine__environment=SEGMENTS)),
    waits(
        MOVING,
        "engine.inherit",
        SHELLS,
        with_arguments(*OFFLOADS[0], engine__inherit=["PATH", ALLOCATOR]),
        fix=f"take {ALLOCATOR} out of it",
    ),
    Case(MOVING, None, with_arguments(*OFFLOADS[0], engine__inherit=[ALLOCATOR], engine__environment={ALLOCATOR: ""})),
    Case(EVERY, TWICE, with_arguments(*OFFLOADS[0], "--mamba-cache-mode", "all"), hybrid()),
    Case(EVERY, None, with_arguments(*OFFLOADS[0], "--mamba-cache-mode=align"), hybrid()),
    Case(EVERY, None, with_arguments(*OFFLOADS[0]), hybrid()),
    Case(EVERY, None, with_arguments("--mamba-cache-mode=all"), hybrid()),
    Case(EVERY, None, with_arguments(*OFFLOADS[0], "--mamba-cache-mode=all"), llama()),
    no_shapes(EVERY, "--mamba-cache-mode=all"),
    *(Case(STATE, NOT_SHOWN, with_arguments(*asked), hybrid()) for asked in OFFLOADS),
    Case(STATE, None, with_arguments("--cpu-offload-gb=8"), hybrid()),
    Case(STATE, None, with_arguments(*OFFLOADS[0]), llama()),
    no_shapes(STATE),
]
SEVERITIES = {STATE: Severity.warn}
