"""The cache of folders that are made once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from recorded_progress import Recorded

from toolkit.checkpoint.progress import Silent, step
from toolkit.checkpoint.store import MANIFEST, Key, Store, verify
from toolkit.errors import CheckFailedError
from toolkit.storage.lock import locked, locked_if_free

REPOSITORY = Path(__file__).parents[2]
KEY = Key("model", {"from": "a", "version": 1})


def make(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "weights").write_bytes(b"w" * 1000)
    (folder / "sub" / "note").write_text("hello")


def never(folder: Path) -> None:
    raise AssertionError(f"{folder} was built again")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path)


def staged(store: Store) -> list[str]:
    return sorted(path.name for path in (store.root / ".staging").iterdir())


def test_built_once(store: Store) -> None:
    assert store.find(KEY) is None
    folder = store.build(KEY, make, Silent())
    assert folder == store.path(KEY) == store.find(KEY)
    assert folder.name.startswith("model-")
    assert (folder / "sub" / "note").read_text() == "hello"
    assert store.build(KEY, never, Silent()) == folder
    assert verify(folder) == ()
    assert staged(store) == []
    assert (store.root / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


def test_finding_writes_nothing(tmp_path: Path) -> None:
    assert Store.at(tmp_path / "none").find(KEY) is None
    assert list(tmp_path.iterdir()) == []


def test_manifest(store: Store) -> None:
    manifest = json.loads((store.build(KEY, make, Silent()) / MANIFEST).read_text())
    assert manifest["made_from"] == {"from": "a", "version": 1}
    assert manifest["files"]["sub/note"] == {
        "bytes": 5,
        "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
    }


def test_files_are_read_only_folders_can_be_removed(store: Store) -> None:
    folder = store.build(KEY, make, Silent())
    assert {oct(path.stat().st_mode & 0o777) for path in folder.rglob("*") if path.is_file()} == {"0o444"}
    assert {path.stat().st_mode & 0o700 for path in folder.rglob("*") if path.is_dir()} == {0o700}


@pytest.mark.parametrize("identity", [{"from": "b", "version": 1}, {"from": "a", "version": 2}, {"from": "a"}])
def test_any_change_makes_another_entry(identity: dict) -> None:
    assert Key("model", identity).name != KEY.name


def test_the_order_of_the_identity_does_not_matter() -> None:
    assert Key("model", {"version": 1, "from": "a"}).name == KEY.name


@pytest.mark.parametrize("label", ["../up", "/abs", "a/b", "", "..", ".hidden", "x" * 500, "\u00fc \n"])
def test_a_label_cannot_lead_elsewhere(tmp_path: Path, label: str) -> None:
    path = Store(tmp_path).path(Key(label, {}))
    assert path.parent == tmp_path
    assert not path.name.startswith(".")
    assert len(path.name) < 128


def test_a_failed_build_leaves_nothing(store: Store) -> None:
    def fail(folder: Path) -> None:
        make(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.build(KEY, fail, Silent())
    assert staged(store) == []
    assert store.find(KEY) is None
    assert store.build(KEY, make, Silent()) == store.find(KEY)


@pytest.mark.parametrize("damage", ["shorter", "gone", "no manifest", "wrong manifest"])
def test_a_damaged_entry_is_built_again(store: Store, damage: str) -> None:
    folder = store.build(KEY, make, Silent())
    (folder / "weights").chmod(0o644)
    (folder / MANIFEST).chmod(0o644)
    match damage:
        case "shorter":
            (folder / "weights").write_bytes(b"w" * 999)
        case "gone":
            (folder / "sub" / "note").unlink()
        case "no manifest":
            (folder / MANIFEST).unlink()
        case "wrong manifest":
            (folder / MANIFEST).write_text('{"files": ')
    assert store.find(KEY) is None
    assert store.build(KEY, make, Silent()) == folder
    assert verify(folder) == ()
    assert staged(store) == []


def test_verify_reads_every_byte(store: Store) -> None:
    folder = store.build(KEY, make, Silent())
    (folder / "weights").chmod(0o644)
    (folder / "weights").write_bytes(b"w" * 500 + bytes(500))
    (folder / "sub" / "note").unlink()
    (folder / "stray").touch()
    assert verify(folder) == ("stray is not in the manifest", "sub/note is missing", "weights has changed")


def test_what_dead_builders_left_is_removed_and_a_live_one_is_not(store: Store) -> None:
    store.build(KEY, make, Silent())
    staging, locks = store.root / ".staging", store.root / ".locks"
    for name in ("dead-1", "dead-2~damaged", "alive"):
        (staging / name).mkdir()
        (staging / name / "part").touch()
    second = Key("model", {"from": "second"})
    (staging / second.name).mkdir()  # left by a dead builder of the same entry
    with locked(locks / "alive.lock", step(Silent(), "", None)):
        store.build(second, make, Silent())
        assert staged(store) == ["alive"]
    store.build(Key("model", {"from": "third"}), make, Silent())
    assert staged(store) == []


def test_a_lock_is_exclusive_and_released(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with locked(path, step(Silent(), "", None)), locked_if_free(path) as free:
        assert not free
    with locked_if_free(path) as free:
        assert free


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


BUILD = """
import sys
from pathlib import Path
from toolkit.checkpoint.store import Key, Store

class Told:
    def start(self, what, total): print(what, flush=True)
    def advance(self, amount): pass
    def done(self): pass

def make(folder):
    print("made", flush=True)
    (folder / "weights").write_bytes(b"w")

print(Store.at(Path(sys.argv[1])).build(Key("model", {"race": 1}), make, Told()))
"""


def test_several_processes_build_once(tmp_path: Path) -> None:
    store, key = Store.at(tmp_path), Key("model", {"race": 1})
    store.build(KEY, make, Silent())  # so that the lock's folder is there
    with locked(store.root / ".locks" / f"{key.name}.lock", step(Silent(), "", None)):
        children = [child(BUILD, tmp_path) for _ in range(3)]
        for process in children:  # all three stand before the lock
            assert process.stdout is not None
            assert process.stdout.readline() == f"waiting for another process to make {key.name}\n"
    outputs = [process.communicate(timeout=60)[0].splitlines() for process in children]
    assert sorted(outputs) == [[str(store.path(key))]] * 2 + [["made", str(store.path(key))]]


LIMITED = """
import resource, sys
from pathlib import Path
from toolkit.checkpoint.progress import Silent
from toolkit.checkpoint.store import Key, Store
from toolkit.errors import ToolkitError
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
def make(folder): (folder / "weights").write_bytes(b"w" * 6000)
try:
    Store.at(Path(sys.argv[1])).build(Key("model", {}), make, Silent())
except ToolkitError as error:
    print(error.exit_code, error.what)
"""


def test_a_full_disk(tmp_path: Path, store: Store) -> None:
    output, _ = child(LIMITED, tmp_path).communicate(timeout=60)
    assert output == f"5 the cache {store.root} cannot be written: File too large\n"
    assert staged(store) == []
    assert [path.name for path in store.root.iterdir() if not path.name.startswith(".")] == ["CACHEDIR.TAG"]


def test_a_cache_in_the_way_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").touch()
    with pytest.raises(CheckFailedError) as raised:
        Store.at(tmp_path).build(KEY, make, Silent())
    assert raised.value.what.startswith(f"the cache {tmp_path}/checkpoints cannot be written: ")
    assert "XDG_CACHE_HOME" in raised.value.fix


def test_a_fault_of_the_maker_is_no_fault_of_the_cache(store: Store) -> None:
    def wrong(folder: Path) -> None:
        (folder / "not" / "there").touch()

    with pytest.raises(FileNotFoundError):
        store.build(KEY, wrong, Silent())


def test_waiting_is_a_step_that_ends(tmp_path: Path) -> None:
    recorded = Recorded()
    with step(recorded, "waiting", None):
        pass
    assert recorded.ended == ["waiting"]
