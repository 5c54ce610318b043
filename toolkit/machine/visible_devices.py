"""CUDA_VISIBLE_DEVICES as CUDA reads it: the one reader, for the machine's facts and for the plugin in the engine.

CUDA C++ Programming Guide, section 'CUDA Environment Variables'; of a device that is named twice torch says what CUDA
does (torch/cuda/__init__.py: _parse_visible_devices).
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def chosen(text: str | None, uuids: Sequence[str]) -> tuple[int, ...]:
    """The indices of the GPUs that the variable lets through, in its order; all of them where it is not set.

    uuids: every GPU's, by index. The list ends at the first entry that names no GPU, and a GPU that is named twice
    leaves none at all.
    """
    if text is None:
        return tuple(range(len(uuids)))
    found: list[int] = []
    for entry in entries(text):
        index = named(entry, uuids)
        if index is None:
            break
        if index in found:
            return ()
        found.append(index)
    return tuple(found)


def entries(text: str) -> list[str]:
    """The variable's entries; an empty one names no GPU."""
    return [entry.strip() for entry in text.split(",")]


def named(entry: str, uuids: Sequence[str]) -> int | None:
    """The index of the GPU that one entry names, by its index or by the beginning of its UUID alone; None for none.

    CUDA also takes the digits that a word begins with, which vLLM cannot read; such a word names none here.
    """
    if re.fullmatch("[0-9]{1,9}", entry):
        return int(entry) if int(entry) < len(uuids) else None
    matching = [index for index, uuid in enumerate(uuids) if entry.startswith("GPU-") and uuid.startswith(entry)]
    return matching[0] if len(matching) == 1 else None
