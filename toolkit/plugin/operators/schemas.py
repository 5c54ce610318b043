"""The schemas of vLLM 0.32.0's 160 native operators (schemas.txt), and their parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Schema:
    """One operator: its namespace, its name with an overload if it has one, and its arguments and returns."""

    namespace: str
    name: str
    signature: str

    @property
    def qualified(self) -> str:
        """Such as `_C::rms_norm`."""
        return f"{self.namespace}::{self.name}"

    @property
    def definition(self) -> str:
        """What torch.library.Library.define takes."""
        return f"{self.name}{self.signature}"


@cache
def read() -> tuple[Schema, ...]:
    """All schemas, in the order of the file."""
    return tuple(_parse(Path(__file__).with_name("schemas.txt").read_text(encoding="utf-8")))


def _parse(text: str) -> Iterator[Schema]:
    for line in text.splitlines():
        namespace, _, rest = line.partition("::")
        name, parenthesis, signature = rest.partition("(")
        yield Schema(namespace, name, parenthesis + signature)
