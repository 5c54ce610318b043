"""Declared work: for each operator a shape, what it moves and computes there, and how it is launched.

kernels/shapes.yaml holds the declarations; docs/report.md says what each field means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.errors import ConfigurationError
from toolkit.native.names import KernelName, parse
from toolkit.native.report.expression import evaluate

BYTES = {"f16": 2, "f32": 4, "e4m3": 1, "e5m2": 1, "nvfp4": 0.5625, "i32": 4, "i64": 8, "u8": 1}
"""Bytes of an element by its type in a kernel's name; NVFP4 with its share of the scales (one byte for 16)."""
_FIELDS = frozenset({"shape", "dram", "accessed", "fp32", "tensor", "threads", "blocks", "shared", "rounds", "layouts"})


@dataclass(frozen=True)
class Work:
    """One kernel's work at its declared shape.

    shape:    the sizes, as they are read.
    dram:     bytes that must come from or go to DRAM, each once.
    accessed: bytes that all threads' loads and stores of global memory ask for.
    fp32, tensor: operations (a multiply-add counts as two).
    threads:  a block; blocks: of the launch; shared: bytes of dynamic shared memory a block.
    rounds:   how often a thread goes through the outermost loops; None to derive it from `tensor` or `accessed`.
    """

    shape: str
    dram: float
    accessed: float
    fp32: float
    tensor: float
    threads: int
    blocks: int
    shared: int
    rounds: float | None


@dataclass(frozen=True)
class Shapes:
    """The declarations of a checkout, by kernel operation."""

    path: Path
    operators: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Shapes:
        """Read kernels/shapes.yaml. Raises ConfigurationError if it is no table of operators."""
        import yaml

        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise ConfigurationError("the declared shapes cannot be read", where=str(path), why=str(error)) from error
        if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
            raise ConfigurationError("the declared shapes are no table of operators", where=str(path))
        return cls(path, found)

    def work(self, kernel: str) -> Work | None:
        """What is declared for a kernel; None where its operation or its layout is not. ConfigurationError if wrong."""
        name = parse(kernel)
        layout = re.sub(r"\d+$", "", name.layout)
        declared = self.operators.get(name.operation)
        if declared is None or layout not in declared.get("layouts", {}):
            return None
        fields = {**declared, **declared["layouts"][layout]}
        fields["shape"] = {**declared.get("shape", {}), **declared["layouts"][layout].get("shape", {})}
        try:
            return _work(name, fields)
        except (ValueError, KeyError) as error:
            where = f"{self.path}: {name.operation}.layouts.{layout}"
            raise ConfigurationError(
                "a declared shape cannot be used", where=where, why=str(error), fix="docs/report.md lists the fields"
            ) from error


def _work(name: KernelName, fields: Mapping[str, Any]) -> Work:
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        raise ValueError(f"unknown fields: {', '.join(unknown)}")
    digits = re.search(r"\d+$", name.layout)
    names: dict[str, float] = {f"t{index}": BYTES[kind] for index, kind in enumerate(name.types)}
    sizes = list(names.values())
    names |= {"first": sizes[0], "last": sizes[-1], "every": sum(sizes)}
    names["pack"] = int(digits.group()) if digits else 1
    for key, value in fields["shape"].items():
        names[key] = evaluate(value, names)
    for key in ("threads", "blocks"):
        names[key] = evaluate(fields[key], names)
    dram = evaluate(fields["dram"], names)
    return Work(
        shape=" ".join(f"{key}={value}" for key, value in fields["shape"].items() if isinstance(value, int)),
        dram=dram,
        accessed=evaluate(fields.get("accessed", dram), names),
        fp32=evaluate(fields.get("fp32", 0), names),
        tensor=evaluate(fields.get("tensor", 0), names),
        threads=int(names["threads"]),
        blocks=int(names["blocks"]),
        shared=int(evaluate(fields.get("shared", 0), names)),
        rounds=None if "rounds" not in fields else evaluate(fields["rounds"], names),
    )
