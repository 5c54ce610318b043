// RMS normalisation, plain and fused with the residual addition.
//
//   rms_norm:            out = round(x * s * w)                       s = 1 / sqrt(mean(x^2) + epsilon) over the last dimension
//   fused_add_rms_norm:  z = round(x + residual); residual = z; x = round(z * s(z) * w)
//
// One rounding to the output type after fp32 products in that order; w = 1 when there is no weight.
//
// Contract   rows of `columns` elements, unit stride inside a row, any strides between rows (Rows); out may be x itself.
// Error      against the float64 oracle (kernels/reference/norm.py), for up to 32,768 columns: 2^-18 relative before the
//            last rounding, so an fp16 result is the oracle's or its neighbour. z is exact (one correctly rounded addition).
// Layout     `block`: one row a block, thread t holds packs t, t + threads, ...; two packs stay in registers, longer rows
//            are read twice. `warp`: one row for each group of 2..32 lanes, 256 threads a block, for short rows.
// Order      the sum's order depends on `columns` and on the pack width alone: the same bits for every batch size.
// Resources  128 bytes of shared memory, at most 64 registers, no spills.
// Method     the usual two-phase row reduction; the choice of threads is in kernels/host/norm.cpp.

#include "common.cuh"

namespace volta {

constexpr int kHeld = 2;  // packs of a row that a thread keeps in registers

template <typename T>
struct NormArguments {
  T* out;
  Rows out_rows;
  const T* in;
  Rows in_rows;
  T* residual;
  Rows residual_rows;
  const T* weight;
  int64 rows;
  int columns;
  float epsilon;
};

// A pack of x, or of round(x + residual), which it also writes back.
template <typename T, int N, bool kAdd>
__device__ __forceinline__ Pack<T, N> read_pack(const T* in, T* residual, int at) {
  Pack<T, N> x = load<T, N>(in + at);
  if constexpr (kAdd) {
    const Pack<T, N> r = load<T, N>(residual + at);
#pragma unroll
    for (int i = 0; i < N; ++i) x.at[i] = from_float<T>(to_float(x.at[i]) + to_float(r.at[i]));
    store<T, N>(residual + at, x);
  }
  return x;
}

template <typename T, int N>
__device__ __forceinline__ float squares(const Pack<T, N>& x, float sum) {
#pragma unroll
  for (int i = 0; i < N; ++i) sum = fmaf(to_float(x.at[i]), to_float(x.at[i]), sum);
  return sum;
}

template <typename T, int N>
__device__ __forceinline__ void write_pack(T* out, const T* weight, int at, Pack<T, N> x, float scale) {
  if (weight != nullptr) {
    const Pack<T, N> w = load<T, N>(weight + at);
#pragma unroll
    for (int i = 0; i < N; ++i) x.at[i] = from_float<T>(to_float(x.at[i]) * scale * to_float(w.at[i]));
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) x.at[i] = from_float<T>(to_float(x.at[i]) * scale);
  }
  store<T, N>(out + at, x);
}

// One row by `width` threads, this one being number `lane`; `sum_over` adds a value up over them.
template <typename T, int N, bool kAdd, typename Sum>
__device__ __forceinline__ void normalise_row(
    const NormArguments<T>& a, int64 row, bool active, int lane, int width, Sum sum_over) {
  const T* in = a.in + row_offset(a.in_rows, row);
  T* out = a.out + row_offset(a.out_rows, row);
  T* residual = kAdd ? a.residual + row_offset(a.residual_rows, row) : nullptr;
  const int packs = active ? a.columns / N : 0;
  Pack<T, N> held[kHeld];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int pack = lane + k * width;
    if (pack < packs) {
      held[k] = read_pack<T, N, kAdd>(in, residual, pack * N);
      sum = squares(held[k], sum);
    }
  }
  for (int pack = lane + kHeld * width; pack < packs; pack += width)
    sum = squares(read_pack<T, N, kAdd>(in, residual, pack * N), sum);
  const float scale = rsqrtf(sum_over(sum) / a.columns + a.epsilon);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int pack = lane + k * width;
    if (pack < packs) write_pack<T, N>(out, a.weight, pack * N, held[k], scale);
  }
  const T* again = kAdd ? residual : in;
  for (int pack = lane + kHeld * width; pack < packs; pack += width)
    write_pack<T, N>(out, a.weight, pack * N, load<T, N>(again + pack * N), scale);
}

template <typename T, int N, bool kAdd>
__device__ __forceinline__ void by_block(const NormArguments<T>& a) {
  normalise_row<T, N, kAdd>(a, blockIdx.x, true, threadIdx.x, blockDim.x, [](float x) { return block_sum(x); });
}

// blockDim = (width, groups): thread (x, y) is lane x of the group of row blockIdx.x * groups + y.
template <typename T, int N, bool kAdd>
__device__ __forceinline__ void by_warp(const NormArguments<T>& a) {
  const int64 row = token_of_thread();
  const bool active = row < a.rows;  // an idle group stays for the shuffles
  const int width = blockDim.x;
  normalise_row<T, N, kAdd>(
      a, active ? row : 0, active, threadIdx.x, width, [width](float x) { return group_sum(x, width); });
}

}  // namespace volta

#define VOLTA_NORM(type, T, N)                                                                          \
  extern "C" __global__ void rms_norm_##type##_##type##_block##N##_sm70(volta::NormArguments<T> a) {    \
    volta::by_block<T, N, false>(a);                                                                    \
  }                                                                                                     \
  extern "C" __global__ void rms_norm_##type##_##type##_warp##N##_sm70(volta::NormArguments<T> a) {     \
    volta::by_warp<T, N, false>(a);                                                                     \
  }                                                                                                     \
  extern "C" __global__ void fused_add_rms_norm_##type##_##type##_block##N##_sm70(                      \
      volta::NormArguments<T> a) {                                                                      \
    volta::by_block<T, N, true>(a);                                                                     \
  }                                                                                                     \
  extern "C" __global__ void fused_add_rms_norm_##type##_##type##_warp##N##_sm70(                       \
      volta::NormArguments<T> a) {                                                                      \
    volta::by_warp<T, N, true>(a);                                                                      \
  }

VOLTA_NORM(f16, __half, 8)
VOLTA_NORM(f16, __half, 1)
VOLTA_NORM(f32, float, 4)
VOLTA_NORM(f32, float, 1)
