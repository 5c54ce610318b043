"""Occupancy of a V100 against NVIDIA's occupancy table for compute capability 7.0, worked out by hand."""

import pytest

from toolkit.native.report.gpu import V100, Occupancy, occupancy


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "expected"),
    [
        (32, 0, 256, Occupancy(8, 64, "warps")),  # 8 x 256 threads are 2,048
        (16, 0, 32, Occupancy(32, 32, "blocks")),
        (33, 0, 256, Occupancy(6, 48, "registers")),  # 40 a thread: 65,536 // 1,280 = 51 warps, 48 in fours
        (255, 0, 256, Occupancy(1, 8, "registers")),  # 8 warps of 8,192 fill the file
        (255, 0, 512, Occupancy(0, 0, "registers")),
        (64, 49152, 128, Occupancy(2, 8, "shared memory")),
        (64, 98304, 128, Occupancy(1, 4, "shared memory")),
        (64, 98305, 128, Occupancy(0, 0, "shared memory")),
        (128, 0, 96, Occupancy(4, 12, "registers")),  # three warps are granted four: 16 warps of 4,096
    ],
)
def test_blocks_and_warps_of_a_multiprocessor(registers, shared, threads, expected):
    assert occupancy(V100, registers=registers, shared=shared, threads=threads) == expected


def test_the_peaks_are_those_of_the_data_sheet():
    assert V100.tensor == pytest.approx(125e12, rel=0.01)
    assert V100.fp32 == pytest.approx(15.7e12, rel=0.01)
