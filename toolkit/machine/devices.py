"""Which GPUs a program sees: what CUDA makes of CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.machine.facts import Gpu, Link


def visible(gpus: Sequence[Gpu], text: str | None) -> tuple[Gpu, ...]:
    """The GPUs that the variable lets through, in its order; all of them where it is not set.

    CUDA reads entries up to the first that names no GPU, and an entry is an index or the beginning of a UUID that only
    one GPU has (CUDA C++ Programming Guide, section 'CUDA Environment Variables').
    """
    if text is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for entry in entries(text):
        gpu = named(gpus, entry)
        if gpu is None or gpu in chosen:
            break
        chosen.append(gpu)
    return tuple(chosen)


def among(links: Sequence[Link], gpus: Sequence[Gpu]) -> tuple[Link, ...]:
    """The links between these GPUs alone."""
    indices = {gpu.index for gpu in gpus}
    return tuple(link for link in links if {link.first, link.second} <= indices)


def entries(text: str) -> list[str]:
    """The variable's entries."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def named(gpus: Sequence[Gpu], entry: str) -> Gpu | None:
    """The GPU that one entry names, or None."""
    if entry.isdecimal():
        return next((gpu for gpu in gpus if gpu.index == int(entry)), None)
    matching = [gpu for gpu in gpus if entry.startswith("GPU-") and gpu.uuid.startswith(entry)]
    return matching[0] if len(matching) == 1 else None
