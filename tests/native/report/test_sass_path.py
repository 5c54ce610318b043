"""The counted path of compiled kernels whose work follows from their text."""

import pytest

from toolkit.native.sass.decode import decode
from toolkit.native.sass.flow import Block, Loop, loops
from toolkit.native.sass.path import counts, trace, work

SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void straight(float4* x, const float4* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = y[i];
}
extern "C" __global__ void loop(float* x, const float2* y, int n) {
  float sum = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 32) sum += y[i].x * y[i].y;
  x[threadIdx.x] = sum;
}
extern "C" __global__ void nested(float* x, const float* y, int n, int m) {
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < m; ++k) sum += y[k * n + i];
    x[i] = sum;
  }
}
extern "C" __global__ void rare(float* x, const float* y) { x[threadIdx.x] = y[threadIdx.x] / y[threadIdx.x + 99]; }
extern "C" __global__ void slow_loop(unsigned* x, const unsigned* y) {
  unsigned at = y[threadIdx.x], sum = 0;
  if (at & 1) {
#pragma unroll 1
    for (int i = 0; i < 8; ++i) sum = sum * 3 + (at >> i);
  } else {
#pragma unroll
    for (int i = 0; i < 64; ++i) sum ^= (at << i % 7) + (sum >> 3);
  }
  x[threadIdx.x] = sum;
}
extern "C" __global__ void optional(float* x, const float* y, const float* weight) {
  float at = y[threadIdx.x];
  if (weight != nullptr) at *= weight[threadIdx.x];
  x[threadIdx.x] = at;
}
extern "C" __global__ void missing(uint4* x, const float4* y, float4* z, const int* there) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  union { uint4 whole; __half at[8]; } stored = {{0, 0, 0, 0}};
  const float4 first = y[i], second = y[i + 1];  // needed either way
  z[i] = make_float4(first.x + second.x, first.y + second.y, first.z + second.z, first.w + second.w);
  if (there[i] >= 0) {
    const float in[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
    for (int k = 0; k < 8; ++k) stored.at[k] = __float2half(in[k] * in[k] * in[7 - k] + in[0]);
  }
  x[i] = stored.whole;
}
extern "C" __global__ void choice(int* x, const int* which, int n) {
  switch (which[0]) {
    case 0: x[n] = n * 3; break;
    case 1: x[n * 2] = x[n] / n; break;
    case 2: x[0] = x[1] + x[2]; break;
    case 3: x[7] = x[n] % n; break;
    case 4: x[9] = __popc(x[3]); break;
    case 5: x[n + 1] = n; x[3] = 2; break;
  }
}
"""


@pytest.fixture(scope="module")
def code(compile_kernels):
    return {name: decode(kernel.code) for name, kernel in compile_kernels(SOURCE).items()}


def test_a_bounds_check_is_passed(code):
    path = trace(code["straight"])
    assert path.loops == ()
    assert {name: number for name, number in counts(path.instructions).items() if "G" in name} == {
        "LDG.128": 1,
        "STG.128": 1,
    }


def test_a_loop_holds_its_own_loads(code):
    (loop,) = trace(code["loop"]).loops
    assert counts(loop.instructions)["LDG.64"] == 1
    assert counts(loop.instructions)["FFMA"] == 1
    assert work(loop.everything()) == 8


def test_loops_nest(code):
    path = trace(code["nested"])
    (outer,) = path.loops
    (inner,) = outer.loops
    assert counts(inner.instructions)["LDG.32"] == 1
    assert counts(outer.instructions)["STG.32"] == 1
    assert len(path.all_loops()) == 2


def test_code_for_rare_values_is_not_counted(code):
    assert any(item.operation == "CALL" for item in code["rare"])
    path = trace(code["rare"])
    assert counts(path.instructions)["MUFU"] == 1
    assert not any(item.operation == "CALL" for item in path.everything())


def test_one_round_of_a_slow_loop_does_not_make_it_the_short_way(code):
    path = trace(code["slow_loop"])
    assert path.loops == ()
    assert len(path.instructions) > 100
    assert work(path.instructions) == 8


def test_an_optional_argument_is_there(code):
    assert counts(trace(code["optional"]).instructions)["LDG.32"] == 2


def test_a_value_that_is_there_is_converted(code):
    """The other way stores as many bytes, and needs fewer instructions."""
    assert counts(code["missing"])["F2F"] == 8
    assert counts(trace(code["missing"]).instructions)["F2F"] == 8


def test_a_computed_branch_leads_to_the_case_with_the_most_work(code):
    assert any(item.operation == "BRX" for item in code["choice"])
    assert work(trace(code["choice"]).everything()) == 16  # which[0], two loads and a store


def test_code_out_of_line_that_branches_back_is_no_loop():
    """0 goes on at 16 or out of line to 48, which comes back to 16; 32 goes back to 16, which makes a loop."""
    leads = {0: (16, 48), 16: (32,), 32: (16, 64), 48: (16,), 64: ()}
    graph = {address: Block((), followers) for address, followers in leads.items()}
    assert loops(graph, 0) == (Loop(16, frozenset({16, 32}), frozenset({32})),)
