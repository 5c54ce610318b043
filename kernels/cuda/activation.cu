// Gated activations: out[.., d] of input[.., 2 d], which holds a gate and an up for each element. round is to the type of
// the data; everything between two roundings is fp32.
//
//   silu_and_mul, gelu_and_mul, gelu_tanh_and_mul   round(round(act(gate)) * up)    input = gate | up
//   mul_and_silu                                    round(up * round(silu(gate)))   input = up | gate
//   fatrelu_and_mul                                 round(fatrelu(gate) * up)       input = gate | up
//   silu_and_mul_with_clamp                         round(round(swish(g)) * (u + beta)), g = round(min(gate, limit)),
//                                                   u = round(max(min(up, limit), -limit)); input = gate | up
//   swigluoai_and_mul                               round(swish(g) * (u + 1)), g = min(gate, limit),
//                                                   u = max(min(up, limit), -limit); input = gate, up, gate, up, ..
//
//   silu(x) = x / (1 + exp(-x))
//   gelu(x) = x / 2 * (1 + erf(x / sqrt 2))
//   gelu_tanh(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
//   fatrelu(x) = 0 where x <= threshold, else x
//   swish(x) = x / (1 + exp(-alpha x))
//
// Where act is rounded, the result is what the two separate operations give. NaN is never hidden: a clamp and a threshold
// let it through, as torch's do. Upstream's CUDA kernels disagree on whether the clamped up is rounded, which shows where
// limit is no number of the type; ours, like torch's clamp, always rounds it.
//
// Contract   unit stride inside a row, any strides between rows (Rows).
// Error      against the float64 oracle (kernels/reference/activation.py): act within 2^-20 relative plus 2^-22 absolute
//            before its rounding, so an fp16 act is the oracle's or its neighbour, and a result moves by at most
//            |up| * ulp(act) plus its own rounding; fp32 within 2^-19 relative plus 2^-22 |up|.
//            (The absolute part is gelu's cancellation for negative x.)
//            swish within 2^-20 + |alpha x| 2^-24 relative (alpha x is rounded before the exponential) plus 2^-110, and
//            u + beta within 2^-24 relative: silu_and_mul_with_clamp's act as above, swigluoai_and_mul within both together
//            plus its one rounding. fatrelu and the clamps are exact.
// Layout     blockIdx.x is the row, blockIdx.y * blockDim.x + threadIdx.x the pack of N elements in it.
// Resources  no shared memory, at most 40 registers, no spills.

#include "common.cuh"

namespace volta {

// What some of the operators take besides the data; fatrelu's threshold is its limit.
struct Parameters {
  float limit, alpha, beta;
};

template <typename T>
struct ActivationArguments {
  T* out;
  Rows out_rows;
  const T* in;
  Rows in_rows;
  int columns;  // d
  Parameters parameters;
};

template <typename T>
__device__ __forceinline__ float rounded(float x) { return to_float(from_float<T>(x)); }

// Comparisons, not fminf and fmaxf, which would drop NaN.
__device__ __forceinline__ float at_most(float x, float limit) { return x > limit ? limit : x; }
__device__ __forceinline__ float clamped(float x, float limit) { return x < -limit ? -limit : at_most(x, limit); }

__device__ __forceinline__ float swish(float x, float alpha) { return x / (1.0f + expf(-alpha * x)); }

struct Silu {
  static __device__ __forceinline__ float of(float x, const Parameters&) { return x / (1.0f + expf(-x)); }
};

struct Gelu {
  static __device__ __forceinline__ float of(float x, const Parameters&) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
  }
};

struct GeluTanh {
  static __device__ __forceinline__ float of(float x, const Parameters&) {
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
  }
};

struct Fatrelu {
  static __device__ __forceinline__ float of(float x, const Parameters& p) { return x <= p.limit ? 0.0f : x; }
};

// Formulas: a gate and an up to the result before its rounding.
template <typename Act>
struct TimesUp {
  template <typename T>
  static __device__ __forceinline__ float of(float gate, float up, const Parameters& p) {
    return rounded<T>(Act::of(gate, p)) * up;
  }
};

struct ClampedSilu {
  template <typename T>
  static __device__ __forceinline__ float of(float gate, float up, const Parameters& p) {
    const float g = rounded<T>(at_most(gate, p.limit)), u = rounded<T>(clamped(up, p.limit));
    return rounded<T>(swish(g, p.alpha)) * (u + p.beta);
  }
};

struct SwigluOai {
  template <typename T>
  static __device__ __forceinline__ float of(float gate, float up, const Parameters& p) {
    return swish(at_most(gate, p.limit), p.alpha) * (clamped(up, p.limit) + 1.0f);
  }
};

// Where a row of 2 d has the gates and ups of the N elements from `at` on.
template <typename T, int N>
struct Both {
  Pack<T, N> gate, up;
};

struct GateUp {
  template <typename T, int N>
  static __device__ __forceinline__ Both<T, N> of(const T* row, int columns, int at) {
    return {load<T, N>(row + at), load<T, N>(row + columns + at)};
  }
};

struct UpGate {
  template <typename T, int N>
  static __device__ __forceinline__ Both<T, N> of(const T* row, int columns, int at) {
    return {load<T, N>(row + columns + at), load<T, N>(row + at)};
  }
};

struct Pairs {
  template <typename T, int N>
  static __device__ __forceinline__ Both<T, N> of(const T* row, int, int at) {
    const Pack<T, N> packs[2] = {load<T, N>(row + 2 * at), load<T, N>(row + 2 * at + N)};
    Both<T, N> both;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      both.gate.at[i] = packs[2 * i / N].at[2 * i % N];
      both.up.at[i] = packs[(2 * i + 1) / N].at[(2 * i + 1) % N];
    }
    return both;
  }
};

template <typename Order, typename Formula, typename T, int N>
__device__ __forceinline__ void gated(const ActivationArguments<T>& a) {
  const int at = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (at >= a.columns) return;
  const Both<T, N> both = Order::template of<T, N>(a.in + row_offset(a.in_rows, blockIdx.x), a.columns, at);
  Pack<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.at[i] =
        from_float<T>(Formula::template of<T>(to_float(both.gate.at[i]), to_float(both.up.at[i]), a.parameters));
  store<T, N>(a.out + row_offset(a.out_rows, blockIdx.x) + at, result);
}

}  // namespace volta

#define VOLTA_GATED(name, Order, Formula, type, T, N)                                                 \
  extern "C" __global__ void name##_##type##_##type##_rows##N##_sm70(volta::ActivationArguments<T> a) { \
    using namespace volta;                                                                            \
    gated<Order, Formula, T, N>(a);                                                                   \
  }
#define VOLTA_GATED_OF_TYPES(name, Order, Formula)  \
  VOLTA_GATED(name, Order, Formula, f16, __half, 8) \
  VOLTA_GATED(name, Order, Formula, f16, __half, 1) \
  VOLTA_GATED(name, Order, Formula, f32, float, 4)  \
  VOLTA_GATED(name, Order, Formula, f32, float, 1)

VOLTA_GATED_OF_TYPES(silu_and_mul, GateUp, TimesUp<Silu>)
VOLTA_GATED_OF_TYPES(gelu_and_mul, GateUp, TimesUp<Gelu>)
VOLTA_GATED_OF_TYPES(gelu_tanh_and_mul, GateUp, TimesUp<GeluTanh>)
VOLTA_GATED_OF_TYPES(mul_and_silu, UpGate, TimesUp<Silu>)
VOLTA_GATED_OF_TYPES(fatrelu_and_mul, GateUp, TimesUp<Fatrelu>)
VOLTA_GATED_OF_TYPES(silu_and_mul_with_clamp, GateUp, ClampedSilu)
VOLTA_GATED_OF_TYPES(swigluoai_and_mul, Pairs, SwigluOai)
