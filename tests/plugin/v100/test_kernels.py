"""Which launched kernels a worker finds; that all real ones are found is in test_triton.py."""

from __future__ import annotations

from .conftest import Run, last_json


def test_vllms_placeholders_beside_a_kernel_are_left_alone(run: Run) -> None:
    assert last_json(run("placeholders")) == [["vllm.made_up.kernel"], []]
