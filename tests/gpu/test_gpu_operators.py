"""Every operator against its float64 oracle on a GPU: the cases of tests/native, with fresh inputs."""

import secrets

import pytest

from kernels.checks.suite import cases

SEED = secrets.randbelow(2**31)  # printed with a failure


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_operator_is_within_its_bound_of_the_oracle(case, volta):
    print("seed", SEED)
    case.run("cuda", SEED)
