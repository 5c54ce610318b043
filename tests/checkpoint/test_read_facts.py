"""A checkpoint's facts from its folder, and every way in which the folder can be wrong."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoint_files import header_of, index, raw_shard, shard, sharded

from toolkit.checkpoint.local import read_facts
from toolkit.errors import CheckFailedError, ConfigurationError

A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
TWO = {A: {"a": ("BF16", [2, 3]), "b": ("F32", [])}, B: {"c": ("U8", [4])}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sharded(tmp_path / "model", TWO, {"model_type": "llama", "hidden_size": 8})


@pytest.fixture
def single(tmp_path: Path) -> Path:
    folder = tmp_path / "single"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    shard(folder / "model.safetensors", {"a": ("F16", [2, 2])})
    return folder


def fault(folder: Path) -> CheckFailedError:
    with pytest.raises(CheckFailedError) as raised:
        read_facts(folder, "m")
    assert raised.value.exit_code == 5
    assert raised.value.where == str(folder)
    assert raised.value.fix
    return raised.value


def listed(error: CheckFailedError) -> list[str]:
    return [f"{item.candidate}: {item.reason}" for item in error.rejected]


def test_sharded(folder: Path) -> None:
    facts = read_facts(folder, "m")
    assert (facts.name, facts.present, facts.root, facts.missing) == ("m", True, folder, None)
    assert facts.config == {"model_type": "llama", "hidden_size": 8}
    assert {name: (t.dtype, t.shape, t.num_bytes, t.file) for name, t in facts.tensors.items()} == {
        "a": ("BF16", (2, 3), 12, A),
        "b": ("F32", (), 4, A),
        "c": ("U8", (4,), 4, B),
    }
    assert facts.weight_bytes == 20
    index_file = folder / "model.safetensors.index.json"
    assert facts.index_sha256 == hashlib.sha256(index_file.read_bytes()).hexdigest()
    assert facts.files == {path.name: path.stat().st_size for path in folder.iterdir()}


def test_single_file(single: Path) -> None:
    facts = read_facts(single, "m")
    assert facts.index_sha256 is None
    assert facts.weight_bytes == 8


def test_numbered_files_without_an_index_count_if_complete(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    assert set(read_facts(folder, "m").tensors) == {"a", "b", "c"}
    (folder / A).unlink()
    assert fault(folder).what == f"{A}: does not exist"


def test_a_second_copy_in_another_layout_is_passed_over(single: Path) -> None:
    shard(single / "consolidated.safetensors", {"other": ("F16", [2])})
    assert set(read_facts(single, "m").tensors) == {"a"}


def test_the_same_tensor_in_two_files(single: Path) -> None:
    shard(single / "more.safetensors", {"a": ("F16", [2, 2])})
    assert fault(single).what == "more.safetensors: a is in model.safetensors as well"


def test_the_format_reader_agrees(folder: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    facts = read_facts(folder, "m")
    for file in (A, B):
        with safetensors.safe_open(folder / file, "np") as opened:
            for name in opened.keys():  # noqa: SIM118 - no mapping
                part = opened.get_slice(name)
                assert facts.tensors[name].shape == tuple(part.get_shape())
                assert facts.tensors[name].dtype == part.get_dtype()


def test_links_as_a_hub_cache_has_them(folder: Path, tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(blobs / str(number))
        path.symlink_to(Path("..") / "blobs" / str(number))
    facts = read_facts(folder, "m")
    assert facts.weight_bytes == 20
    assert facts.files[B] == (folder / B).stat().st_size


def test_files_below_folders_and_a_link_back_up(folder: Path) -> None:
    (folder / "extra").mkdir()
    (folder / "extra" / "note.txt").write_text("four")
    (folder / "extra" / "up").symlink_to(folder)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "hidden").write_text("x")
    (folder / "nowhere").symlink_to("not-there")
    files = read_facts(folder, "m").files
    assert files["extra/note.txt"] == 4
    assert not any("hidden" in file or "nowhere" in file for file in files)
    assert not any(file.startswith("extra/up") for file in files)


def test_several_faults_are_told_at_once(folder: Path) -> None:
    (folder / "config.json").write_text('{"a": 1,\n "b" 2}')
    (folder / A).unlink()
    raw_shard(folder / B, header_of({"c": ("U8", [4])}), 3)
    error = fault(folder)
    assert error.what == ("config.json: wrong JSON at line 2, column 6: Expecting ':' delimiter (and 2 more faults)")
    assert listed(error) == [
        f"{A}: does not exist",
        f"{B}: truncated: c ends at byte 4 of the data, the file has 3",
    ]


def test_many_faults_are_cut(folder: Path) -> None:
    index(folder, {"a": A, "b": A, "c": B} | {f"t{number:03}": A for number in range(100)})
    error = fault(folder)
    assert error.what.endswith("(and 99 more faults)")
    assert len(error.rejected) == 21
    assert error.rejected[-1].reason == "79 more faults not listed"


# ---- the folder


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_facts(tmp_path / "none", "m")
    assert raised.value.what == f"the checkpoint's folder {tmp_path}/none does not exist"
    assert "checkpoint.source.path" in raised.value.fix


def test_a_file_as_folder(single: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"model\.safetensors is a file, not a folder\n"):
        read_facts(single / "model.safetensors", "m")


def test_a_loop_as_folder(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("y")
    (tmp_path / "y").symlink_to("x")
    with pytest.raises(ConfigurationError, match="x is a loop of symbolic links\n"):
        read_facts(tmp_path / "x", "m")


def unprivileged(code: str, *arguments: str) -> str:
    """What code prints that runs as another user (the tests may run as root, who can read everything)."""
    drop = "import os\nif os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
    command = [sys.executable, "-c", "import toolkit.checkpoint.local\n" + drop + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout


READ = """
import sys
from pathlib import Path
from toolkit.checkpoint.local import read_facts
from toolkit.errors import ToolkitError
try:
    read_facts(Path(sys.argv[1]), "m")
except ToolkitError as error:
    print(type(error).__name__, error.what)
"""


def reachable(folder: Path) -> None:
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)


def test_unreadable_files(folder: Path) -> None:
    reachable(folder)
    (folder / A).chmod(0)
    (folder / "config.json").chmod(0)
    assert unprivileged(READ, str(folder)) == (
        "CheckFailedError config.json: not readable: permission denied (and 1 more fault)\n"
    )


def test_unreadable_folder(folder: Path) -> None:
    reachable(folder)
    folder.chmod(0)
    output = unprivileged(READ, str(folder))
    folder.chmod(0o755)
    assert output == f"ConfigurationError the checkpoint's folder {folder} is not readable: permission denied\n"


# ---- config.json


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 1,\n "b" 2}', "wrong JSON at line 2, column 6: Expecting ':' delimiter"),
        (b"", "wrong JSON at line 1, column 1: Expecting value"),
        (b"[1]", "wrong JSON: an object is needed, this is an array"),
        (b"null", "wrong JSON: an object is needed, this is null"),
        (b'{"a": 1, "a": 2}', "duplicate key 'a'"),
        (b'{"a": {"b": 1, "b": 2}}', "duplicate key 'b'"),
        (b'{"a": NaN}', "wrong JSON: NaN is no JSON number"),
        (b'{"a": "\xff"}', "wrong JSON: byte 7 is no UTF-8"),
        (b"\xef\xbb\xbf{}", "wrong JSON at line 1, column 1: Unexpected UTF-8 BOM (decode using utf-8-sig)"),
        (b"[" * 100_000, "wrong JSON: nested too deeply"),
    ],
)
def test_wrong_config(single: Path, text: bytes, reason: str) -> None:
    (single / "config.json").write_bytes(text)
    assert fault(single).what == f"config.json: {reason}"


def test_a_number_without_end(single: Path) -> None:
    (single / "config.json").write_text(f'{{"a": {"9" * 5000}}}')
    assert fault(single).what.startswith("config.json: wrong JSON: ")


def test_no_config(single: Path) -> None:
    (single / "config.json").unlink()
    error = fault(single)
    assert error.what == "config.json: does not exist"
    assert error.fix == "name the folder that holds config.json and the safetensors files"


def test_config_is_a_folder(single: Path) -> None:
    (single / "config.json").unlink()
    (single / "config.json").mkdir()
    assert fault(single).what == "config.json: a folder, not a file"


# ---- which files hold the weights


def test_no_weights(single: Path) -> None:
    (single / "model.safetensors").unlink()
    assert fault(single).what == "*.safetensors: none in the folder"
    (single / "pytorch_model.bin").touch()
    assert fault(single).what == (
        "*.safetensors: none in the folder; pytorch_model.bin is pickled weights, which is not served from a folder"
    )
    (single / "m.gguf").touch()
    assert "m.gguf is a GGUF file" in fault(single).what


def test_index_names_a_missing_shard(folder: Path) -> None:
    (folder / B).unlink()
    assert fault(folder).what == f"{B}: does not exist"


def test_index_names_a_tensor_that_the_shard_lacks(folder: Path) -> None:
    index(folder, {"a": A, "b": A, "c": B, "d": B})
    assert fault(folder).what == f"model.safetensors.index.json: d is not in {B}, where the index puts it"


def test_index_puts_a_tensor_into_the_wrong_shard(folder: Path) -> None:
    index(folder, {"a": A, "b": B, "c": B})
    assert fault(folder).what == f"model.safetensors.index.json: b is not in {B}, where the index puts it"


def test_shard_holds_a_tensor_that_the_index_lacks(folder: Path) -> None:
    index(folder, {"a": A, "c": B})
    assert fault(folder).what == f"{A}: b is not in model.safetensors.index.json"


@pytest.mark.parametrize(
    "file",
    ["../other.safetensors", "/etc/passwd.safetensors", "a/../b.safetensors", "./a.safetensors", "a//b.safetensors",
     "a\\b.safetensors", "x\n.safetensors", "config.json", "", 5, None, ["a.safetensors"]],
)  # fmt: skip
def test_index_leads_out_of_the_folder(folder: Path, file: object) -> None:
    index(folder, {"a": A, "b": A, "c": file})
    name = file if isinstance(file, str) else repr(file)
    assert fault(folder).what.startswith(f"model.safetensors.index.json: it names the file {name!r}; only ")


@pytest.mark.parametrize("text", ["{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": null}'])
def test_index_without_a_map(folder: Path, text: str) -> None:
    (folder / "model.safetensors.index.json").write_text(text)
    assert fault(folder).what == "model.safetensors.index.json: no weight_map: it must map tensor names to files"


def test_wrong_index(folder: Path) -> None:
    path = folder / "model.safetensors.index.json"
    path.write_text(path.read_text()[:-3])
    assert fault(folder).what.startswith("model.safetensors.index.json: wrong JSON at line 1, column ")
    path.write_text('{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}')
    assert fault(folder).what == "model.safetensors.index.json: duplicate key 'a'"


def test_index_behind_a_broken_link(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model.safetensors.index.json").symlink_to("nowhere")
    assert fault(folder).what == "model.safetensors.index.json: does not exist"


# ---- one file


def test_shard_is_a_loop(folder: Path) -> None:
    (folder / B).unlink()
    (folder / B).symlink_to(B)
    assert fault(folder).what == f"{B}: a loop of symbolic links"


def test_shard_is_a_pipe(folder: Path) -> None:
    (folder / B).unlink()
    os.mkfifo(folder / B)
    assert fault(folder).what == f"{B}: not a file"


def test_shard_is_a_folder(folder: Path) -> None:
    (folder / B).unlink()
    (folder / B).mkdir()
    assert fault(folder).what == f"{B}: not a file"


QUOTED = "Expecting property name enclosed in double quotes"


def entry(dtype: object = "U8", shape: object = (4,), offsets: object = (0, 4)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("header", "data_bytes", "reason"),
    [
        ({"c": entry(offsets=[0, 5])}, 5, "c: U8 [4] needs 4 bytes, its offsets span 5"),
        ({"c": entry("F4", [3], [0, 1])}, 1, "c: F4 [3] needs 1.5 bytes, its offsets span 1"),
        ({"c": entry("F32", [-2, -2], [0, 16])}, 16, "c: dtype 'F32' with shape [-2, -2] is unknown"),
        ({"c": entry("F32", [2.0], [0, 8])}, 8, "c: dtype 'F32' with shape [2.0] is unknown"),
        ({"c": entry("F32", [True], [0, 4])}, 4, "c: dtype 'F32' with shape [True] is unknown"),
        ({"c": entry("F32", "4", [0, 4])}, 4, "c: dtype 'F32' with shape '4' is unknown"),
        ({"c": entry("Q4", [4])}, 4, "c: dtype 'Q4' with shape [4] is unknown"),
        ({"c": entry(["U8"], [4])}, 4, "c: dtype ['U8'] with shape [4] is unknown"),
        ({"c": entry(offsets=[4, 0])}, 4, "c: data_offsets [4, 0] are no [begin, end]"),
        ({"c": entry(offsets=[0, 4, 8])}, 4, "c: data_offsets [0, 4, 8] are no [begin, end]"),
        ({"c": entry(offsets=[-4, 0])}, 4, "c: data_offsets [-4, 0] are no [begin, end]"),
        ({"c": entry(offsets=[0.0, 4.0])}, 4, "c: data_offsets [0.0, 4.0] are no [begin, end]"),
        ({"c": entry(offsets=[False, 4])}, 4, "c: data_offsets [False, 4] are no [begin, end]"),
        ({"c": {"dtype": "U8", "shape": [4]}}, 4, "c: a tensor needs dtype, shape and data_offsets"),
        ({"c": 4}, 4, "c: a tensor needs dtype, shape and data_offsets"),
        ({"c\u0007": entry()}, 4, r"tensor name 'c\x07' holds unprintable characters"),
        ({"c\ud800": entry()}, 4, r"tensor name 'c\ud800' holds unprintable characters"),
        ({"c": entry()}, 3, "truncated: c ends at byte 4 of the data, the file has 3"),
        ({"c": entry()}, 0, "truncated: c ends at byte 4 of the data, the file has 0"),
        ({"c": entry()}, 6, "2 bytes at the end, belonging to no tensor"),
        ({"c": entry(offsets=[2, 6])}, 6, "2 bytes between the start and c, belonging to no tensor"),
        ({"c": entry(), "d": entry(offsets=[2, 6])}, 6, "d overlaps c: it begins at byte 2, c ends at 4"),
        ({"c": entry(), "d": entry(offsets=[0, 4])}, 4, "d overlaps c: it begins at byte 0, c ends at 4"),
        ({}, 4, "4 bytes at the end, belonging to no tensor"),
    ],
)  # fmt: skip
def test_wrong_header(single: Path, header: dict, data_bytes: int, reason: str) -> None:
    raw_shard(single / "model.safetensors", header, data_bytes)
    assert fault(single).what == f"model.safetensors: {reason}"


def test_tensors_may_be_in_any_order(single: Path) -> None:
    header = {"a": entry(offsets=[4, 8]), "__metadata__": {"format": "pt"}, "b": entry(offsets=[0, 4])}
    raw_shard(single / "model.safetensors", header, 8)
    assert set(read_facts(single, "m").tensors) == {"a", "b"}


def test_empty_tensors(single: Path) -> None:
    raw_shard(single / "model.safetensors", {"a": entry("F32", [0, 5], [0, 0]), "b": entry()}, 4)
    assert read_facts(single, "m").weight_bytes == 4


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated: 0 bytes, even the header's length needs 8"),
        (b"1234567", "truncated: 7 bytes, even the header's length needs 8"),
        (b"\xff" * 99, "no safetensors file: it claims a header of 18446744073709551615 bytes, 100000000 is the limit"),
        ((100).to_bytes(8, "little") + b"{}", "truncated: the header needs 108 bytes, the file has 10"),
        ((2).to_bytes(8, "little") + b"{x", f"its header: wrong JSON at line 1, column 2: {QUOTED}"),
        ((0).to_bytes(8, "little"), "its header: wrong JSON at line 1, column 1: Expecting value"),
        ((2).to_bytes(8, "little") + b"[]", "its header: wrong JSON: an object is needed, this is an array"),
    ],
)  # fmt: skip
def test_wrong_file(single: Path, content: bytes, reason: str) -> None:
    (single / "model.safetensors").write_bytes(content)
    assert fault(single).what == f"model.safetensors: {reason}"


def test_duplicate_tensor(single: Path) -> None:
    text = json.dumps(entry())
    raw_shard(single / "model.safetensors", None, 4, f'{{"a": {text}, "a": {text}}}'.encode())
    assert fault(single).what == "model.safetensors: its header: duplicate key 'a'"


def test_a_header_longer_than_one_read(single: Path) -> None:
    tensors = {f"layer.{number}.weight": ("U8", [1]) for number in range(5000)}
    shard(single / "model.safetensors", tensors)
    assert (single / "model.safetensors").stat().st_size > 1 << 18
    assert set(read_facts(single, "m").tensors) == set(tensors)


@pytest.mark.parametrize("cut", [1, 3, 30, 100])
def test_every_truncation_is_noticed(folder: Path, cut: int) -> None:
    os.truncate(folder / A, (folder / A).stat().st_size - cut)
    assert fault(folder).what.startswith(f"{A}: ")


def test_reading_changes_nothing(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}
    read_facts(folder, "m")
    assert {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))} == before


def test_a_number_that_nothing_counts_to(single: Path) -> None:
    """Tokenizers write 10**30 where there is no limit, so that is read."""
    (single / "config.json").write_text('{"no_limit": 1000000000000000019884624838656}')
    assert read_facts(single, "m").config["no_limit"] > 10**29
    (single / "config.json").write_text('{"text_config": {"sizes": [1, ' + "9" * 400 + "]}}")
    assert fault(single).what == "config.json: text_config.sizes[1]: a number of that size means nothing"


def test_a_shape_that_the_formats_own_reader_cannot_read(single: Path) -> None:
    header = {"a": {"dtype": "U8", "shape": [0, 10**400], "data_offsets": [0, 0]}}
    raw_shard(single / "model.safetensors", header, 0)
    assert "is unknown" in fault(single).what
