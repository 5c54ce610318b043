// Gated activations: out[.., d] = round(round(act(gate)) * up) with input[.., 2 d] = gate | up.
//
//   silu(x) = x / (1 + exp(-x))
//   gelu(x) = x / 2 * (1 + erf(x / sqrt 2))
//   gelu_tanh(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
//
// act is computed in fp32 and rounded to the type of the data, then multiplied and rounded again: what the two separate
// operations give.
//
// Contract   unit stride inside a row, any strides between rows (Rows).
// Error      against the float64 oracle (kernels/reference/activation.py): act within 2^-20 relative plus 2^-22 absolute
//            before its rounding, so an fp16 act is the oracle's or its neighbour, and a result moves by at most
//            |up| * ulp(act) plus its own rounding; fp32 within 2^-19 relative plus 2^-22 |up|.
//            (The absolute part is gelu's cancellation for negative x.)
// Layout     blockIdx.x is the row, blockIdx.y * blockDim.x + threadIdx.x the pack of N elements in it.
// Resources  no shared memory, at most 40 registers, no spills.

#include "common.cuh"

namespace volta {

template <typename T>
struct ActivationArguments {
  T* out;
  Rows out_rows;
  const T* in;
  Rows in_rows;
  int columns;  // d
};

struct Silu {
  static __device__ __forceinline__ float of(float x) { return x / (1.0f + expf(-x)); }
};

struct Gelu {
  static __device__ __forceinline__ float of(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }
};

struct GeluTanh {
  static __device__ __forceinline__ float of(float x) {
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
  }
};

template <typename Act, typename T, int N>
__device__ __forceinline__ void act_and_mul(const ActivationArguments<T>& a) {
  const int at = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (at >= a.columns) return;
  const T* row = a.in + row_offset(a.in_rows, blockIdx.x);
  const Pack<T, N> gate = load<T, N>(row + at);
  const Pack<T, N> up = load<T, N>(row + a.columns + at);
  Pack<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const T act = from_float<T>(Act::of(to_float(gate.at[i])));
    result.at[i] = from_float<T>(to_float(act) * to_float(up.at[i]));
  }
  store<T, N>(a.out + row_offset(a.out_rows, blockIdx.x) + at, result);
}

}  // namespace volta

#define VOLTA_ACT(name, Act, type, T, N)                                                                      \
  extern "C" __global__ void name##_and_mul_##type##_##type##_rows##N##_sm70(volta::ActivationArguments<T> a) { \
    volta::act_and_mul<volta::Act, T, N>(a);                                                                  \
  }
#define VOLTA_ACTS(name, Act)            \
  VOLTA_ACT(name, Act, f16, __half, 8)   \
  VOLTA_ACT(name, Act, f16, __half, 1)   \
  VOLTA_ACT(name, Act, f32, float, 4)    \
  VOLTA_ACT(name, Act, f32, float, 1)

VOLTA_ACTS(silu, Silu)
VOLTA_ACTS(gelu, Gelu)
VOLTA_ACTS(gelu_tanh, GeluTanh)
