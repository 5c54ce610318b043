"""Rules about folders that the engine writes to: it finds out late, after it has loaded the model."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.schema.engine import EngineConfig
from toolkit.machine.facts import COMPILED, TEMPORARY
from toolkit.planning.plan import Severity
from toolkit.planning.rules.gpus import on_gpu
from toolkit.planning.rules.rule import Context, Problem, Rule, unknown

MOVED_BY = {COMPILED: ("XDG_CACHE_HOME", "HOME"), TEMPORARY: ("TMPDIR",)}
"""The variables that name another folder; the first overrules the second."""
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT")
"""What our plugin sets to folders below the toolkit's cache, unless the user has."""


def folder_unwritable(context: Context) -> Iterator[Problem]:
    """Compiled kernels, sockets and logs need a place."""
    found = context.machine.unwritable
    if found is None:
        yield unknown("folders", "it is not known whether the engine can write to its folders")
        return
    for use, variables in MOVED_BY.items():
        if use == COMPILED and not _keeps_compiled_code(context):
            continue
        moved = next((name for name in variables if _differs(context.config.engine, name)), None)
        if moved is not None:
            yield unknown(use, f"the folder was looked for by the shell's {moved}, and the engine gets another or none")
        elif use in found:
            yield Problem(
                use,
                f"the engine cannot keep any: {found[use]}",
                f"make it writable, or set {variables[0]} to a folder that is",
            )


def _differs(engine: EngineConfig, name: str) -> bool:
    """Whether the engine may see another value of a variable than the shell that was looked at."""
    return name in engine.environment or name not in engine.inherit


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
