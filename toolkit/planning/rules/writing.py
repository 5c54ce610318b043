"""Rules about folders that the engine writes to: it finds out late, after it has loaded the model."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.machine.facts import COMPILED, TEMPORARY
from toolkit.planning.plan import Severity
from toolkit.planning.rules.gpus import on_gpu
from toolkit.planning.rules.rule import Context, Problem, Rule, unknown

MOVED_BY = {COMPILED: "XDG_CACHE_HOME", TEMPORARY: "TMPDIR"}
"""The shell's variable that names another folder."""
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT")
"""What our plugin sets to folders below the toolkit's cache, unless the user has."""


def folder_unwritable(context: Context) -> Iterator[Problem]:
    """Compiled kernels, sockets and logs need a place."""
    found = context.machine.unwritable
    if found is None:
        yield unknown("folders", "it is not known whether the engine can write to its folders")
        return
    for use, fault in found.items():
        if use != COMPILED or _keeps_compiled_code(context):
            yield Problem(
                use,
                f"the engine cannot keep any: {fault}",
                f"make it writable, or set {MOVED_BY[use]} to a folder that is",
            )


def _keeps_compiled_code(context: Context) -> bool:
    """Whether the engine compiles, into the toolkit's own cache; on the CPU it does so among temporary files."""
    return on_gpu(context) and not all(name in context.config.engine.environment for name in CACHES)


RULES = (
    Rule(
        "folder-unwritable",
        "The engine can write where it has to",
        Severity.refuse,
        folder_unwritable,
        "Triton documentation, variable TRITON_CACHE_DIR; vLLM 0.32 envs.py: VLLM_CACHE_ROOT",
    ),
)
