"""CUDA_VISIBLE_DEVICES as CUDA reads it."""

import pytest

from toolkit.machine.devices import among, visible
from toolkit.machine.facts import Gpu, Link
from toolkit.machine.visible_devices import entries

GPUS = tuple(Gpu(index, "Tesla V100", f"GPU-a{index}b{index % 2}", (7, 0), 100, 90) for index in range(4))


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        (" ", []),
        ("0", [0]),
        ("3,1", [3, 1]),
        (" 2 , 0 ", [2, 0]),
        ("0,7,1", [0]),  # CUDA stops at what names no GPU
        ("-1", []),
        ("0,-1,1", [0]),
        ("1,1,2", []),  # named twice: none at all
        ("0,0", []),
        ("1,GPU-a1", []),
        ("0,9,0", [0]),  # the list has ended before
        ("4294967296", []),  # 2**32, not 0
        ("9" * 400, []),
        ("\u0660", []),  # an Arabic zero, which Python takes for 0
        ("0,\u00b2", [0]),
        ("0,,1", [0]),
        ("0,", [0]),
        ("+1", []),
        ("1gpu", []),
        ("1 0", []),
        ("GPU-a2b0", [2]),
        ("GPU-a3,0", [3, 0]),
        ("GPU-a", []),  # which one?
        ("GPU-", []),
        ("gpu-a2b0", []),
        ("MIG-1", []),
        ("0,MIG-1,1", [0]),
        ("0x1", []),
    ],
)
def test_which_gpus_a_program_sees(text, indices):
    assert [gpu.index for gpu in visible(GPUS, text)] == indices


def test_entries_are_split_at_commas():
    assert entries("0, GPU-1 ,,2") == ["0", "GPU-1", "", "2"]
    assert entries("") == [""]


def test_links_between_visible_gpus_alone():
    links = [Link(first, second, "nvlink", True) for first in range(4) for second in range(first + 1, 4)]
    assert [(link.first, link.second) for link in among(links, (GPUS[3], GPUS[1]))] == [(1, 3)]
    assert among(links, GPUS[:1]) == ()
    assert among(links, GPUS) == tuple(links)
