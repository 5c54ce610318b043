"""Which GPUs, and which links between them, a program sees."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.machine.facts import Gpu, Link
from toolkit.machine.visible_devices import chosen


def visible(gpus: Sequence[Gpu], text: str | None) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES lets through, in its order; `gpus` are all there are, in theirs."""
    return tuple(gpus[index] for index in chosen(text, [gpu.uuid for gpu in gpus]))


def among(links: Sequence[Link], gpus: Sequence[Gpu]) -> tuple[Link, ...]:
    """The links between these GPUs alone."""
    indices = {gpu.index for gpu in gpus}
    return tuple(link for link in links if {link.first, link.second} <= indices)
