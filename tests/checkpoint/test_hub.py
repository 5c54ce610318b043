"""A hub's commit, with the real hub library against a server on this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoint_files import shard, sharded
from local_hub import LocalHub, serving
from recorded_progress import Recorded

from toolkit.checkpoint.hub import HubSource, hub_cache
from toolkit.checkpoint.progress import Silent
from toolkit.checkpoint.sources import fetch, locate
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.errors import CheckFailedError, ConfigurationError

REPOSITORY, REVISION = "owner/name", "0123456789abcdef0123456789abcdef01234567"
A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
WANTED = ["config.json", A, B, "model.safetensors.index.json", "tokenizer.json"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    folder = sharded(
        tmp_path / "original", {A: {"a": ("F32", [50_000])}, B: {"b": ("U8", [4])}}, {"model_type": "llama"}
    )
    (folder / "tokenizer.json").write_text("{}")
    found = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return found | {
        "modeling.py": b"import os",
        "pytorch_model.bin": b"pickle",
        "original/consolidated.safetensors": b"x",
    }


@pytest.fixture
def hub(files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    with serving(LocalHub(REPOSITORY, REVISION, files)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def config(repository: str | None = REPOSITORY, revision: str | None = REVISION) -> CheckpointConfig:
    return CheckpointConfig(
        "m", CheckpointSource(SourceKind.hub, repository=repository, revision=revision), {"a": 1}, 9
    )


def refusal() -> CheckFailedError:
    with pytest.raises(CheckFailedError) as raised:
        fetch(config())
    assert raised.value.fix
    return raised.value


def test_downloaded_once(hub: LocalHub, tmp_path: Path) -> None:
    progress = Recorded()
    facts = fetch(config(), None, progress)
    assert facts.root == tmp_path / "cache" / "models--owner--name" / "snapshots" / REVISION
    assert facts.weight_bytes == 200_004
    assert sorted(facts.files) == WANTED  # no code, no pickles, no second copy
    size = sum(len(hub.files[name]) for name in WANTED)
    assert progress.ended == ["downloading owner/name"]
    assert (progress.totals[progress.ended[0]], progress.steps[progress.ended[0]]) == (size, size)
    hub.requests.clear()
    assert fetch(config()) == facts
    assert locate(config()) == facts
    assert hub.requests == []  # what is here needs no network


def test_nothing_here_yet(hub: LocalHub, tmp_path: Path) -> None:
    facts = locate(config())
    assert (facts.present, facts.config, facts.weight_bytes) == (False, {"a": 1}, 9)
    assert facts.missing == (
        f"owner/name at 0123456789ab is not, or not wholly, in {tmp_path}/cache; serving downloads it"
    )
    assert hub.requests == []
    assert not (tmp_path / "cache").exists()


def test_a_broken_connection_is_resumed(hub: LocalHub, tmp_path: Path) -> None:
    part = 10 << 20  # what the library writes at a time
    shard(tmp_path / A, {"a": ("U8", [part + 5000])})
    hub.files[A] = (tmp_path / A).read_bytes()
    hub.break_at[A] = part + 1000
    assert fetch(config()).weight_bytes == part + 5004
    assert f"GET /owner/name/resolve/{REVISION}/{A} bytes={part}-" in hub.requests


def test_a_failed_download_goes_on_where_it_was(hub: LocalHub) -> None:
    hub.refused.add(A)
    error = refusal()
    assert error.what.startswith("owner/name at 0123456789ab is not complete in ")
    assert "it resumes" in error.fix
    assert not locate(config()).present
    folder = HubSource(REPOSITORY, REVISION).folder
    complete = {path.name for path in folder.iterdir()} if folder.exists() else set()
    assert A not in complete
    hub.refused.clear()
    hub.requests.clear()
    assert fetch(config()).present
    downloads = [request for request in hub.requests if request.startswith("GET") and "resolve" in request]
    assert {request.rpartition("/")[2] for request in downloads} == set(WANTED) - complete


KILLED = """
import os, signal
from toolkit.checkpoint.sources import fetch
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind

class Killer:
    told = 0
    def start(self, what, total): pass
    def done(self): pass
    def advance(self, amount):
        self.told += amount
        if self.told > 1000: os.kill(os.getpid(), signal.SIGKILL)

fetch(CheckpointConfig("m", CheckpointSource(SourceKind.hub, repository="owner/name", revision=%r)), None, Killer())
"""


def test_a_killed_download_is_not_taken_for_whole(hub: LocalHub) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED % REVISION], cwd=Path(__file__).parents[2], check=False)
    assert killed.returncode == -9
    assert not locate(config()).present
    assert fetch(config()).weight_bytes == 200_004


def test_here_but_offline(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = fetch(config())
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert fetch(config()) == facts


def test_here_without_the_librarys_list_and_offline(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = fetch(config())
    for listing in (hub_cache() / "models--owner--name" / "trees").iterdir():
        listing.unlink()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub._tree_cache._IN_MEMORY_TREE_CACHE", {})
    assert fetch(config()) == facts


def test_offline(hub: LocalHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    error = refusal()
    assert error.what == (
        f"owner/name at 0123456789ab is not complete in {tmp_path}/cache, and the hub cannot be reached"
    )
    assert error.where == "http://127.0.0.1:9"
    assert error.why.startswith("[Errno 111]")
    assert error.fix.startswith("connect to the network and run this again (it resumes)")


def test_gated(hub: LocalHub) -> None:
    hub.gated = True
    error = refusal()
    assert error.what == "owner/name at 0123456789ab is gated"
    assert "accept its terms" in error.fix


def test_no_such_repository(hub: LocalHub) -> None:
    hub.repository = "owner/other"
    assert refusal().what == "the hub knows no owner/name, or it is private"


def test_no_such_commit(hub: LocalHub) -> None:
    hub.revision = "f" * 40
    assert refusal().what == f"owner/name has no commit {REVISION}"


def test_files_that_are_broken_at_the_source(hub: LocalHub) -> None:
    hub.files[B] = hub.files[B][:-1]
    with pytest.raises(CheckFailedError, match=f"^{B}: truncated: b ends at byte 4"):
        fetch(config())


def test_a_cache_that_cannot_be_made(hub: LocalHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HF_HUB_CACHE", f"{tmp_path}/file/cache")
    assert refusal().what == f"{tmp_path}/file/cache cannot be written: Not a directory"


def test_too_large_for_the_disk(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = [{"type": "file", "path": "model.safetensors", "size": 2**60, "oid": "0" * 40}]
    monkeypatch.setattr(hub, "tree", lambda: tree)
    assert refusal().what.startswith("the download needs 1073741824.0 GiB, ")


@pytest.mark.parametrize(
    "revision",
    ["main", "v1.0", "0123456", "0123456789ABCDEF0123456789ABCDEF01234567", f"{REVISION} ", f"{REVISION}\n", "0" * 41],
)
def test_a_revision_that_moves(revision: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        locate(config(revision=revision))
    assert raised.value.what == f"checkpoint.source.revision={revision!r} is no commit: 40 digits 0-9a-f are needed"


@pytest.mark.parametrize("repository", ["name", "a/b/c", "../up", "a/..", "https://hub/a/b", "a/b\n", "/a"])
def test_a_repository_that_is_none(repository: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        locate(config(repository=repository))
    assert raised.value.what == f"checkpoint.source.repository={repository!r} is no OWNER/NAME"


@pytest.mark.parametrize(
    ("field", "value"), [("repository", config(repository=None)), ("revision", config(revision=""))]
)
def test_not_set(field: str, value: CheckpointConfig) -> None:
    with pytest.raises(ConfigurationError) as raised:
        fetch(value, None, Silent())
    assert raised.value.what == f"checkpoint.source.{field} is not set"


ENVIRONMENTS = [
    {"HF_HUB_CACHE": "/x/hub"},
    {"HF_HOME": "/x/home"},
    {"XDG_CACHE_HOME": "/x/cache"},
    {"HF_HOME": "~/hf", "HOME": "/x"},
    {"HF_HUB_CACHE": "$THERE/hub", "THERE": "/x"},
    {"HUGGINGFACE_HUB_CACHE": "/x/old"},
    {},
]
PRINT = "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_librarys_own_cache(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    printed = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, check=True).stdout
    assert str(hub_cache()) == printed.strip()


def test_folder() -> None:
    assert HubSource(REPOSITORY, REVISION).folder.parts[-3:] == ("models--owner--name", "snapshots", REVISION)
