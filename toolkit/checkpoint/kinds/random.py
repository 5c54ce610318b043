"""A tiny model drawn from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit.checkpoint.kinds.kind import libraries
from toolkit.checkpoint.progress import Progress
from toolkit.checkpoint.random_model import GENERATOR_VERSION, build_random, random_config
from toolkit.checkpoint.store import Key, Store
from toolkit.config.schema.checkpoint import CheckpointConfig


class RandomKind:
    """checkpoint.declared and checkpoint.source.seed."""

    def __init__(self, config: CheckpointConfig, store: Store) -> None:
        self._store = store
        self._seed = config.source.seed
        self._model = random_config(config.declared)
        identity = {"seed": self._seed, "generator": GENERATOR_VERSION, "config": self._model}
        self._key = Key(config.name, identity)

    def find(self) -> Path | None:
        """The drawn folder."""
        return self._store.find(self._key)

    def missing(self) -> str:
        """That it is quickly made."""
        return "the random model is not drawn yet; serving draws it in a moment"

    def declared(self) -> dict[str, Any]:
        """The whole config.json: what is declared and the values taken for the rest."""
        return self._model

    def get(self, progress: Progress) -> Path:
        """The drawn folder."""

        def make(folder: Path) -> None:
            build_random(self._model, self._seed, folder, progress)

        with libraries("random"):
            return self._store.build(self._key, make, progress)
