"""Every operator against its float64 oracle on the CPU; tests/gpu runs the same cases on a GPU."""

import pytest

from kernels.checks.suite import cases


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_operator_is_within_its_bound_of_the_oracle(case, volta):
    case.run("cpu", 20260101)
