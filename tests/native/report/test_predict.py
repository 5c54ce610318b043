"""Predictions for compiled kernels whose instructions can be counted by hand."""

import pytest

from toolkit.native.report.gpu import V100
from toolkit.native.report.predict import predict, rounds
from toolkit.native.report.shapes import Work
from toolkit.native.sass.decode import decode
from toolkit.native.sass.path import trace

SOURCE = """
extern "C" __global__ void copy(float4* x, const float4* y, int n) {
#pragma unroll 1
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = y[i];
}
extern "C" __global__ void products(float* c, const unsigned* a, int n) {
  float f[8] = {};
  unsigned a0 = a[0], a1 = a[1], b0 = a[2], b1 = a[3];
#pragma unroll 1
  for (int i = 0; i < n; ++i)
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7},{%8,%9},{%10,%11},"
        "{%0,%1,%2,%3,%4,%5,%6,%7};"
        : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]), "+f"(f[4]), "+f"(f[5]), "+f"(f[6]), "+f"(f[7])
        : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
  for (int i = 0; i < 8; ++i) c[threadIdx.x * 8 + i] = f[i];
}
extern "C" __global__ void sines(float* x) {
  float at = x[threadIdx.x];
#pragma unroll
  for (int i = 0; i < 64; ++i) at = __sinf(at);
  x[threadIdx.x] = at;
}
"""


@pytest.fixture(scope="module")
def paths(compile_kernels):
    return {name: trace(decode(kernel.code)) for name, kernel in compile_kernels(SOURCE).items()}


def work(**fields):
    defaults = {"shape": "", "dram": 0, "accessed": 0, "fp32": 0, "tensor": 0, "shared": 0, "rounds": None}
    return Work(**{**defaults, **fields})


def test_a_loop_goes_on_until_the_declared_bytes_are_moved(paths):
    declared = work(dram=2**30, accessed=2**30, threads=256, blocks=640)
    assert rounds(paths["copy"], declared) == (2**30 / (640 * 256 * 32),)
    found = predict(paths["copy"], declared, V100)
    assert (found.limit, found.microseconds) == ("dram", pytest.approx(2**30 / 900e3))
    assert found.roofline == found.microseconds
    moved_by_an_sm = 2**30 / 80
    assert found.parts["memory"] == pytest.approx(moved_by_an_sm / 64 / 1530, rel=0.01)


def test_tensor_instructions_run_at_their_peak(paths):
    steps = 1000
    operations = steps * 2048 * 8 * 160  # one m8n8k4 a round does 2,048 operations a warp; 8 warps, two blocks an SM
    declared = work(tensor=operations, threads=256, blocks=160)
    assert rounds(paths["products"], declared) == (steps,)
    found = predict(paths["products"], declared, V100)
    assert found.parts["tensor"] == pytest.approx(found.roofline, rel=1e-3)
    assert found.roofline == pytest.approx(operations / 125.3e6, rel=1e-3)


def test_the_busiest_multiprocessor_decides(paths):
    even, odd = (predict(paths["sines"], work(threads=128, blocks=blocks), V100) for blocks in (80, 81))
    assert odd.parts["xu"] == 2 * even.parts["xu"]


def test_transcendental_functions_take_a_quarter_of_the_lanes(paths):
    found = predict(paths["sines"], work(threads=32 * 4 * 8, blocks=160), V100)
    assert found.limit == "xu"
    assert found.microseconds == pytest.approx(16 * 64 * 8 / 1530)  # 16 warps a partition, 8 cycles an instruction


def test_no_kernel_is_faster_than_a_launch(paths):
    found = predict(paths["sines"], work(threads=32, blocks=1), V100)
    assert (found.limit, found.microseconds) == ("launch", 2.0)


def test_declared_rounds_win(paths):
    declared = work(accessed=2**30, threads=256, blocks=640, rounds=3.0)
    assert rounds(paths["copy"], declared) == (3.0,)
