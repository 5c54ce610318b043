"""Scale packs: what is read, and each check with its text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from view_samples import pack_for, scales_for, write_pack

from toolkit.errors import CheckFailedError
from toolkit.views.scales.pack import MANIFEST_FILE, SCALE_FILE, pack_files, read_pack
from toolkit.views.scales.scale_file import encode_scales

K = "model.layers.0.self_attn.k_scale"
Change = Callable[[dict[str, Any]], object]


def change_manifest(pack: Path, change: Change) -> None:
    path = pack / MANIFEST_FILE
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def first_line(pack: Path) -> str:
    with pytest.raises(CheckFailedError) as caught:
        read_pack(pack)
    return str(caught.value).splitlines()[0]


def test_a_pack_is_read_as_it_was_written(base: Path, tmp_path: Path) -> None:
    pack = pack_for(base, scales_for())
    assert read_pack(write_pack(tmp_path / "p", pack)) == pack
    assert pack.maxima[K] == 224.0


def test_a_pack_without_max_abs_and_with_further_keys_is_read(pack: Path) -> None:
    def as_published(manifest: dict[str, Any]) -> None:
        for entry in manifest["tensors"]:
            del entry["name"], entry["max_abs"]
        manifest["validated_tokens"] = 131072

    change_manifest(pack, as_published)
    assert read_pack(pack).maxima == {}
    assert read_pack(pack).scales == scales_for()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: m.update(schema_version=2), "schema_version 2 is unknown, 1 is read"),
        (lambda m: m.pop("artifact_id"), "artifact_id is not there, or no str"),
        (lambda m: m.pop("base_checkpoint"), "base_checkpoint.index_sha256 is not there, or no str"),
        (lambda m: m["scale_file"].update(tensor_count=5), f"tensor_count is 5, {SCALE_FILE} holds 4"),
        (lambda m: m["scale_file"]["tensor_names"].pop(0), f"{K} is in {SCALE_FILE} and not listed"),
        (lambda m: m["scale_file"]["tensor_names"].append("x"), f"x is listed and not in {SCALE_FILE}"),
        (lambda m: m["scale_file"]["tensor_names"].append(K), f"{K} is listed twice"),
        (lambda m: m["tensors"][0].update(scale=9.0), f"{K} is 0.5 in the file, 9.0 in the manifest"),
        (lambda m: m["tensors"][0].update(scale=True), f"{K} is 0.5 in the file, True in the manifest"),
        (lambda m: m["tensors"][0].update(scale="0.5"), f"{K} is 0.5 in the file, '0.5' in the manifest"),
        (
            lambda m: m["tensors"][0].update(scale=10**400),
            f"{K} is 0.5 in the file, a number of hundreds of digits in the manifest",
        ),
        (lambda m: m["tensors"][0].update(max_abs=-5), f"max_abs of {K} is -5, which is no magnitude"),
        (lambda m: m["tensors"][0].update(max_abs=True), f"max_abs of {K} is True, which is no magnitude"),
        (
            lambda m: m["tensors"][0].update(max_abs=10**400),
            f"max_abs of {K} is a number of hundreds of digits, which is no magnitude",
        ),
        (lambda m: m.update(schema_version=True), "schema_version True is unknown, 1 is read"),
        (lambda m: m.update(artifact_id="a\x1b[2J"), "artifact_id holds what cannot be printed"),
        *[
            (
                lambda m, name=name: m["scale_file"].update(filename=name),
                f"the scale file is named {name!r}, it must be a .safetensors file beside the manifest",
            )
            for name in ("a\0b.safetensors", "a\nb.safetensors", "\ud800.safetensors", "a/b.safetensors")
        ],
        (
            lambda m: m["scale_file"].update(filename="../x.safetensors"),
            "the scale file is named '../x.safetensors', it must be a .safetensors file beside the manifest",
        ),
        (
            lambda m: m["scale_file"].update(filename="/etc/x.safetensors"),
            "the scale file is named '/etc/x.safetensors', it must be a .safetensors file beside the manifest",
        ),
    ],
)
def test_a_manifest_that_does_not_fit(pack: Path, change: Change, text: str) -> None:
    change_manifest(pack, change)
    assert first_line(pack) == f"{MANIFEST_FILE}: {text}"


@pytest.mark.parametrize("odd", [[1], {}, True, "0", None])
@pytest.mark.parametrize("key", ["layer", "kind", "name"])
def test_an_entry_that_belongs_to_no_scale_tells_nothing(pack: Path, key: str, odd: object) -> None:
    change_manifest(pack, lambda manifest: manifest["tensors"][0].update({key: odd}))
    change_manifest(pack, lambda manifest: manifest["tensors"].append(odd))
    assert read_pack(pack).scales == scales_for()


def test_a_swapped_shard_is_refused(pack: Path) -> None:
    (pack / SCALE_FILE).write_bytes(encode_scales({name: 2 * value for name, value in scales_for().items()}))
    assert first_line(pack) == f"{SCALE_FILE}: the SHA-256 is not the manifest's"


def test_a_name_that_is_no_scale_s(base: Path, tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "p", pack_for(base, {"model.norm.weight": 1.0}))
    assert first_line(pack) == f"{MANIFEST_FILE}: model.norm.weight is no name of a KV scale"


def test_missing_files_are_named(pack: Path, tmp_path: Path) -> None:
    assert first_line(tmp_path / "nowhere") == f"{MANIFEST_FILE}: does not exist"
    (pack / SCALE_FILE).unlink()
    assert first_line(pack) == f"{SCALE_FILE}: does not exist"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_pack_that_only_its_maker_can_read(pack: Path) -> None:
    (pack / SCALE_FILE).chmod(0)
    assert first_line(pack) == f"{SCALE_FILE}: not readable: permission denied"


def test_two_writings_are_the_same_bytes(base: Path) -> None:
    first, second = pack_for(base, scales_for()), pack_for(base, dict(reversed(scales_for().items())))
    assert pack_files(first) == pack_files(second)
