"""Which packages are libraries of CUDA 13, and which only have a name that begins as theirs do."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.planning.rules import software
from toolkit.setup.v100 import CUDA_13, cuda_13


@pytest.mark.parametrize(
    ("name", "version", "named"),
    [
        ("nvidia-cublas", "13.1.0.3", True),
        ("nvidia-cuda-runtime", "13.0.48", True),
        ("nvidia-cufft", "12.0.0.61", True),
        ("nvidia-cufile", "1.15.1.6", True),
        ("nvidia-nvjitlink", "13.0.88", True),
        ("nvidia-nccl-cu13", "2.28.9", True),
        ("nvidia-cublas-cu12", "12.8.4.1", False),
        ("nvidia-cudnn-cu12", "9.10.2.21", False),
        ("nvidia-cuda-cccl", "12.9.27", False),
        ("nvidia-cutlass", "4.2.0.0", False),
        ("nvidia-cutlass-dsl", "4.3.1", False),
        ("nvidia-cudnn-frontend", "1.18.0", False),
        ("nvidia-cuda-strange", "x", False),
    ],
)
def test_a_library_of_cuda_13_is_known_by_its_name_and_version(
    tmp_path: Path, name: str, version: str, named: bool
) -> None:
    info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    assert [line.partition(" is of CUDA 13")[0] for line in cuda_13(tmp_path)] == [f"{name} {version}"] * named


def test_setup_and_doctor_know_the_same_names() -> None:
    assert CUDA_13 == software.CUDA_13
