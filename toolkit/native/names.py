"""The grammar of kernel names: OPERATION_INPUTS_OUTPUT_LAYOUT_ARCH, such as `kv_cache_write_f16_e4m3_paged8_sm70`.

Input and output types come from a fixed list, so the operation may hold underscores; the layout may not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TYPES = ("f16", "f32", "e4m3", "e5m2", "nvfp4", "i32", "i64", "u8")
_ONE = "|".join(TYPES)
_NAME = re.compile(rf"^(?!(?:{_ONE})_)([a-z0-9]+(?:_[a-z0-9]+)*?)((?:_(?:{_ONE}))+)_([a-z0-9]+)_sm(\d+)$")


@dataclass(frozen=True)
class KernelName:
    """A kernel's name in parts. `types` holds the inputs, then the output."""

    operation: str
    types: tuple[str, ...]
    layout: str
    arch: int

    def __str__(self) -> str:
        return "_".join((self.operation, *self.types, self.layout, f"sm{self.arch}"))


def parse(name: str) -> KernelName:
    """The parts of a kernel's name. Raises ValueError if it does not follow the grammar."""
    found = _NAME.match(name)
    if found is None:
        raise ValueError(f"not a kernel name: {name}")
    operation, types, layout, arch = found.groups()
    return KernelName(operation, tuple(types[1:].split("_")), layout, int(arch))
