"""What a library asks of others, on small real libraries, against pyelftools' reading of the same files."""

import random
import struct
import subprocess
from contextlib import suppress

import pytest
from library_samples import library, stub

from toolkit.errors import CheckFailedError
from toolkit.native.elf.image import Image
from toolkit.native.elf.linking import linking

CODE = """
int offered = 1;
extern int asked_for(int);
extern int __attribute__((weak)) may_stay_open(int);
int __attribute__((visibility("hidden"))) kept = 2;
int use(int x) { return asked_for(x) + (may_stay_open ? may_stay_open(x) : kept); }
"""


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.so"
    path.write_bytes(
        library(tmp_path, code=CODE, flags=[*stub(tmp_path, "libstub.so.7"), "-Wl,-rpath,$ORIGIN/a:/opt/b"])
    )
    return path


def test_names_on_both_sides(sample):
    ties = linking(sample)
    assert {b"offered", b"use"} <= ties.defined
    assert b"kept" not in ties.defined
    assert b"asked_for" in ties.wanted
    assert b"may_stay_open" not in ties.wanted | ties.defined
    assert "libstub.so.7" in ties.needed
    assert ties.folders == ("$ORIGIN/a", "/opt/b")


def test_it_reads_what_pyelftools_reads(sample):
    image = Image.read(sample)
    ties = linking(sample)
    assert ties.needed == image.needed
    assert ties.defined == {name.encode() for name in image.exported}
    assert ties.wanted == {name.encode() for name in image.undefined} - {b"may_stay_open"}


def test_a_stripped_library_keeps_its_names(sample):
    before = linking(sample)
    subprocess.run(["strip", "--strip-all", sample], check=True)
    assert linking(sample) == before


@pytest.mark.parametrize("damage", ["empty", "text", "folder", "absent", "32 bits", "big-endian", "header", "size"])
def test_what_is_no_such_library(sample, damage):
    data = bytearray(sample.read_bytes())
    if damage == "folder":
        sample.unlink()
        sample.mkdir()
    elif damage == "absent":
        sample.unlink()
    elif damage == "size":
        (first,) = struct.unpack_from("<Q", data, 0x28)
        for at in range(first, len(data) - 63, 64):
            struct.pack_into("<Q", data, at + 32, 1 << 60)
        sample.write_bytes(data)
    else:
        changed = {
            "empty": b"",
            "text": b"INPUT(libother.so)" * 9,
            "32 bits": data[:4] + b"\1" + data[5:],
            "big-endian": data[:5] + b"\2" + data[6:],
            "header": data[:40],
        }
        sample.write_bytes(changed[damage])
    with pytest.raises(CheckFailedError):
        linking(sample)


def test_no_damage_ends_in_anything_else(sample):
    whole, dice = sample.read_bytes(), random.Random(7)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        sample.write_bytes(data[: dice.choice((len(data), dice.randrange(len(data))))])
        with suppress(CheckFailedError):
            linking(sample)
