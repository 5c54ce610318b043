"""Rules about the operating system: what could be read of it, its limits, its disks and its containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from toolkit.config.schema.checkpoint import SourceKind
from toolkit.machine.facts import NO_LIMIT
from toolkit.planning.plan import Severity
from toolkit.planning.rules.gpus import on_gpu
from toolkit.planning.rules.rule import Context, Problem, Rule, not_looked_at, unknown

FEWEST_FILES = 4096
SMALLEST_DISK = 10 * 2**30


def could_not_be_read(context: Context) -> Iterator[Problem]:
    """A fact that cannot be read is itself a finding."""
    for name, reason in context.machine.unread.items():
        yield Problem(name, f"it could not be read: {reason}")


def no_v100_here(context: Context) -> Iterator[Problem]:
    """A clean bill for a machine without a V100 says nothing about serving on one."""
    machine = context.machine
    if "gpus" in machine.unread or any(gpu.compute_capability == (7, 0) for gpu in machine.gpus):
        return
    if machine.gpus:
        seen = f"GPU {machine.gpus[0].index} is {machine.gpus[0].name}"
    else:
        seen = f"CUDA_VISIBLE_DEVICES hides {machine.hidden_gpus}" if machine.hidden_gpus else "there is no NVIDIA GPU"
    yield Problem("GPUs", f"no V100 is visible here ({seen}), so nothing that only a V100 shows was tried")


def open_files_few(context: Context) -> Iterator[Problem]:
    """Every connection and every mapped file takes one."""
    files = context.machine.open_files
    if files is None:
        yield unknown("ulimit -n", "the limit of open files could not be read")
    elif files != NO_LIMIT and files < FEWEST_FILES:
        yield Problem(
            "ulimit -n", f"a process may hold {files:,} files open", "ulimit -n 65535, or LimitNOFILE in the unit"
        )


def disk_nearly_full(context: Context) -> Iterator[Problem]:
    """A cache or a checkpoint that is cut short fails late and far from its cause."""
    disks = context.machine.disks
    if disks is None:
        yield not_looked_at("disks", "free space was")
        return
    for folder, free in disks.items():
        if free < SMALLEST_DISK:
            yield Problem(
                folder, f"{_gib(free)} GiB are free", "free 10 GiB, or point XDG_CACHE_HOME and TMPDIR elsewhere"
            )


def checkpoint_over_disk(context: Context) -> Iterator[Problem]:
    """A checkpoint that is still to be fetched needs its size in free space."""
    facts, disks, kind = context.checkpoint, context.machine.disks, context.config.checkpoint.source.kind
    if facts.present or facts.weight_bytes is None:
        return
    if disks is None:
        yield not_looked_at("disks", "free space was")
        return
    folder = PurePath((context.machine.fetches_into or {}).get(kind.value, ""))
    above = [PurePath(disk) for disk in disks if folder.is_relative_to(disk)]
    if not above:
        yield not_looked_at("disks", "the folder that it is brought into was")
        return
    free = disks[str(max(above, key=lambda disk: len(disk.parts)))]
    if free < facts.weight_bytes:
        variable = "HF_HOME" if kind is SourceKind.hub else "XDG_CACHE_HOME"
        yield Problem(
            "checkpoint",
            f"its files take {_gib(facts.weight_bytes)} GiB, and {folder} has {_gib(free)} GiB free",
            f"free that much, or point {variable} to a larger disk",
        )


def docker_without_gpu(context: Context) -> Iterator[Problem]:
    """Containers see GPUs through NVIDIA's container toolkit."""
    docker = context.machine.docker
    if on_gpu(context) and context.machine.gpus and docker is not None and not docker.nvidia_runtime:
        yield Problem(
            "docker",
            f"docker {docker.version} has no nvidia runtime, so its containers see no GPU",
            "install nvidia-container-toolkit, then: nvidia-ctk runtime configure --runtime=docker",
        )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}"


RULES = (
    Rule("could-not-be-read", "Every fact could be read", Severity.unchecked, could_not_be_read, "docs/doctor.md"),
    Rule("no-v100-here", "This machine has a V100", Severity.info, no_v100_here, "docs/doctor.md"),
    Rule(
        "open-files-few",
        "A process may hold thousands of files open",
        Severity.warn,
        open_files_few,
        "vLLM 0.32 utils/system_utils.py: set_ulimit",
    ),
    Rule(
        "disk-nearly-full",
        "Disks that are written to have room",
        Severity.warn,
        disk_nearly_full,
        "docs/exit-codes.md",
    ),
    Rule(
        "checkpoint-over-disk",
        "The checkpoint fits on a disk",
        Severity.refuse,
        checkpoint_over_disk,
        "docs/recipes.md",
    ),
    Rule(
        "docker-without-gpu",
        "Containers see the GPUs",
        Severity.info,
        docker_without_gpu,
        "NVIDIA Container Toolkit documentation, section 'Configuring Docker'",
    ),
)
