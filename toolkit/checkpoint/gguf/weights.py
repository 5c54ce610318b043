"""The weights of a GGUF file as one safetensors file in Hugging Face's names and row order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.checkpoint.gguf.cursor import GgufError
from toolkit.checkpoint.gguf.names import huggingface_name
from toolkit.checkpoint.gguf.reader import GgufFile, GgufTensor
from toolkit.checkpoint.llama import llama_tensors
from toolkit.checkpoint.progress import Progress
from toolkit.checkpoint.safetensors_writer import NUMPY_DTYPES, Entry, write_safetensors

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float32]]

SMALLEST_NORMAL = 2.0**-14
"""Of float16: rounding errs by at most 2**-11 of a larger value, and by at most 2**-25 for a smaller one."""

_BLOCK = 1 << 16
"""Values rounded at a time, so that they stay in the processor's cache."""


class Float16OverflowError(Exception):
    """A weight is too large for float16."""


@dataclass
class Rounding:
    """What storing in a narrower dtype cost, over all weights."""

    max_absolute: float = 0.0
    max_relative: float = 0.0
    """Relative to the weight, or to SMALLEST_NORMAL where the weight is smaller; at most 2**-11."""


@dataclass(frozen=True)
class Matched:
    """A GGUF file's tensors by Hugging Face's names, in the model's order."""

    file: GgufFile
    config: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors in the GGUF file."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())


def match_tensors(file: GgufFile, config: Mapping[str, Any]) -> Matched:
    """Every tensor of the file with its place in config.json's model; GgufError where one lacks on either side."""
    expected = llama_tensors(config)
    unknown = [name for name in file.tensors if huggingface_name(name) not in expected]
    if unknown:
        raise GgufError(f"it holds tensors that config.json has no place for: {_some(unknown)}")
    found = {str(huggingface_name(name)): tensor for name, tensor in file.tensors.items()}
    missing = [name for name in expected if name not in found]
    if missing:
        raise GgufError(f"it lacks tensors: {_some(missing)}")
    for name, shape in expected.items():
        if found[name].shape != shape:
            raise GgufError(f"{found[name].name} is {list(found[name].shape)}; config.json needs {list(shape)}")
    return Matched(file, config, {name: found[name] for name in expected})


def write_weights(path: Path, model: Matched, dtype: str, progress: Progress) -> Rounding:
    """Write all tensors in `dtype` (F16 or F32) and say what that cost; Float16OverflowError where F16 is too small."""
    rounding = Rounding()

    def arrays() -> Iterator[np.ndarray[Any, Any]]:
        for name, tensor in model.tensors.items():
            yield _narrow(name, _in_order(name, model.file.dequantized(tensor), model.config), dtype, rounding)
            progress.advance(tensor.num_bytes)

    entries = [Entry(name, dtype, tensor.shape) for name, tensor in model.tensors.items()]
    write_safetensors(path, entries, arrays(), {"format": "pt"})
    return rounding


def unpermute(rows: Array, heads: int) -> Array:
    """Rows of q or k as Hugging Face orders them.

    Its rotary embedding turns dimension i of a head with i + d/2; llama.cpp turns 2i with 2i + 1, so its converter
    interleaves the two halves of every head's rows. This undoes it: row 2i + half comes from half * d/2 + i.
    """
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _in_order(name: str, values: Array, config: Mapping[str, Any]) -> Array:
    if name.endswith("q_proj.weight"):
        return unpermute(values, config["num_attention_heads"])
    if name.endswith("k_proj.weight"):
        return unpermute(values, config["num_key_value_heads"])
    return values


def _narrow(name: str, values: Array, dtype: str, rounding: Rounding) -> np.ndarray[Any, Any]:
    import numpy as np

    stored = np.empty(values.shape, NUMPY_DTYPES[dtype])
    source, target = np.ascontiguousarray(values).reshape(-1), stored.reshape(-1)
    for start in range(0, source.size, _BLOCK):
        block, into = source[start : start + _BLOCK], target[start : start + _BLOCK]
        magnitude = np.abs(block)
        if not np.isfinite(magnitude.max()):
            raise GgufError(f"{name} holds NaN or infinity")
        with np.errstate(over="ignore"):  # told below
            into[:] = block
        error = np.abs(into.astype(np.float32) - block)
        largest = float(error.max())
        if np.isinf(largest):
            raise Float16OverflowError(name)
        relative = float((error / np.maximum(magnitude, SMALLEST_NORMAL)).max()) if largest else 0.0
        rounding.max_absolute = max(rounding.max_absolute, largest)
        rounding.max_relative = max(rounding.max_relative, relative)
    return stored


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
