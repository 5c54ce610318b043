"""The grammar of a recipe's name: CHECKPOINT[_ENGINE][_dcpN][_KV][_SPECULATIVE], each part optional.

A name says what the recipe sets; the shipped ones are compared with their contents by a test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ENGINES = ("cpu", "v100")
KV = {"f16": "float16", "e4m3": "fp8_e4m3", "e5m2": "fp8_e5m2"}
DCP = re.compile("dcp[1-9][0-9]*")
SPECULATIVE = ("mtp3", "dflash2", "draft", "ngram")


@dataclass(frozen=True)
class RecipeName:
    """The parts of a name; empty or None where the name is silent."""

    checkpoint: str = ""
    engine: str | None = None
    dcp: int | None = None
    kv: str | None = None
    """The `kv` group's choice, such as fp8_e4m3."""
    speculative: str | None = None

    @staticmethod
    def parse(name: str) -> RecipeName:
        """Read a name from its end; what no part claims is the checkpoint."""
        words = name.split("_")
        speculative = words.pop() if words and words[-1] in SPECULATIVE else None
        kv = KV[words.pop()] if words and words[-1] in KV else None
        dcp = int(words.pop()[3:]) if words and DCP.fullmatch(words[-1]) else None
        engine = words.pop() if words and words[-1] in ENGINES else None
        return RecipeName("_".join(words), engine, dcp, kv, speculative)

    def format(self) -> str:
        """The name of these parts; the inverse of parse."""
        kv = next((short for short, choice in KV.items() if choice == self.kv), None)
        dcp = f"dcp{self.dcp}" if self.dcp is not None else None
        return "_".join(part for part in (self.checkpoint, self.engine, dcp, kv, self.speculative) if part)
