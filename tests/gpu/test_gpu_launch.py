"""Graphs, streams, torch.compile, sizes beyond 32 bits, views of pinned memory, and errors."""

import secrets

import pytest

from kernels.checks import alias, graphs

SEED = secrets.randbelow(2**31)


@pytest.mark.parametrize(
    "check",
    [graphs.replayed_graph, graphs.sampled_graph, graphs.side_stream, graphs.compiled],
    ids=lambda f: f.__name__,
)
def test_results_do_not_depend_on_how_the_work_is_issued(check, volta):
    print("seed", SEED)
    check(SEED)


def test_more_than_two_to_the_31_elements(volta):
    graphs.many_elements()


def test_a_cpu_tensor_among_cuda_tensors_is_named(volta):
    graphs.mixed_devices()


@pytest.mark.parametrize("check", alias.CUDA_VIEWS, ids=lambda f: f.__name__)
def test_the_gpu_sees_pinned_memory(check, volta):
    print("seed", SEED)
    check(SEED)


def test_a_view_of_cuda_memory_is_refused(volta):
    alias.cuda_view_refuses_cuda()
