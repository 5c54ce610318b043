"""Writing one safetensors file, tensor after tensor, so that memory holds one tensor at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.checkpoint.safetensors_header import DTYPE_BITS

if TYPE_CHECKING:
    import numpy as np

NUMPY_DTYPES = {"F16": "<f2", "F32": "<f4"}
"""The dtypes that this writer takes, with numpy's little-endian names."""


@dataclass(frozen=True)
class Entry:
    """One tensor to come."""

    name: str
    dtype: str
    """A key of NUMPY_DTYPES."""
    shape: tuple[int, ...]


def write_safetensors(
    path: Path, entries: Iterable[Entry], arrays: Iterable[np.ndarray[Any, Any]], metadata: Mapping[str, str]
) -> None:
    """Write `path`, which must not exist; `arrays` gives the entries' values in the same order.

    Raises ValueError where an array is not what its entry says.
    """
    layout = list(entries)
    with path.open("xb") as stream:
        stream.write(_header(layout, metadata))
        for entry, array in zip(layout, arrays, strict=True):
            if array.shape != entry.shape or array.dtype.str != NUMPY_DTYPES[entry.dtype]:
                raise ValueError(f"{entry.name} is {array.dtype.str} {array.shape}, not {entry.dtype} {entry.shape}")
            stream.write(array.tobytes())


def _header(layout: list[Entry], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for entry in layout:
        end = begin + prod(entry.shape) * DTYPE_BITS[entry.dtype] // 8
        header[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # aligns the data
    return len(text).to_bytes(8, "little") + text
