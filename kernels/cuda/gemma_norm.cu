// RMS normalisation with one order of summation for every launch, and with a weight that is stored as its distance from
// `offset` (Gemma and Qwen3.5: 1; the plain form: 0).
//
//   without a residual:  z = x                          with one:  z = x + residual, in fp32; residual = round(z)
//   result = round((z * s) * (offset + w))              s = 1 / sqrt(sum(z^2) / columns + epsilon)
//
// Everything is fp32 and each operation is rounded by itself, none contracted. An fp16 residual is rounded for storage only:
// the normalisation goes on with the sum, as vLLM's GemmaRMSNorm does (fused_add_rms_norm, our other norm, takes the rounded
// sum, as upstream's kernel does).
//
// Contract   rows of `columns` elements, unit stride inside a row, any strides between rows (Rows), any alignment; x and result
//            in fp16 or fp32, residual in x's type or fp32, w in fp16 or fp32. result may be x itself.
// Promise    bitwise equal to the ordered oracle (kernels/reference/gemma_norm.py) and to the CPU implementation: for every
//            batch size, alignment, launch, GPU and replay (payloads of NaN aside). Squares are fp32: a row with |z| of 2^64 or
//            more overflows, and becomes zeros.
// Error      against the float64 oracle, for up to 32,768 columns: 2^-18 relative before the last rounding.
// Order      512 slots (16 warps; tuned for rows of 8,192). Slot t adds up the squares of elements 8 t .. 8 t + 7, then of those
//            4,096 further on, and so on, in ascending order, from zero. Then slots 0..31 become one number by halving (slot i
//            plus slot i + 16, then i + 8, 4, 2, 1), so do the next 32, and the 16 sums become one by halving again.
// Layout     one row a block, thread t is slot t; a row that fills fewer slots takes fewer warps, since empty slots add zero; rows
//            of up to 256 elements take one warp each, eight a block. Two packs stay in registers; what is longer is read twice.
// Resources  128 bytes of shared memory, at most 64 registers, no spills.
// Method     the usual two-phase row reduction; square root and divisions are correctly rounded ones, of which a row needs three.

#include "common.cuh"

namespace volta {

constexpr int kPack = 8, kSlots = 512;
constexpr int kKept = 2;  // packs that a thread keeps in registers: all of a row of 8,192

template <typename T, typename R>
struct GemmaNormArguments {
  T* out;
  Rows out_rows;
  const T* in;
  Rows in_rows;
  R* residual;
  Rows residual_rows;
  const void* weight;
  bool half_weight;
  int64 rows;
  int columns;
  float epsilon, offset;
};

// Eight elements, of which `count` exist; the others read as zero. kPacked: all exist, and 16 bytes are aligned.
template <bool kPacked>
__device__ __forceinline__ void read(float (&to)[kPack], const __half* from, int count) {
  if constexpr (kPacked) {
    const Pack<__half, 8> pack = load<__half, 8>(from);
#pragma unroll
    for (int i = 0; i < kPack; ++i) to[i] = to_float(pack.at[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) to[i] = i < count ? to_float(from[i]) : 0.0f;
  }
}

template <bool kPacked>
__device__ __forceinline__ void read(float (&to)[kPack], const float* from, int count) {
  if constexpr (kPacked) {
    const Pack<float, 4> low = load<float, 4>(from), high = load<float, 4>(from + 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = low.at[i], to[i + 4] = high.at[i];
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) to[i] = i < count ? from[i] : 0.0f;
  }
}

template <bool kPacked, typename S>
__device__ __forceinline__ void write(S* to, const float (&from)[kPack], int count) {
  constexpr int kAtOnce = 16 / sizeof(S);
  if constexpr (kPacked) {
#pragma unroll
    for (int part = 0; part < kPack; part += kAtOnce) {
      Pack<S, kAtOnce> pack;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) pack.at[i] = from_float<S>(from[part + i]);
      store<S, kAtOnce>(to + part, pack);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i)
      if (i < count) to[i] = from_float<S>(from[i]);
  }
}

// One row by the slots of one block or warp.
template <typename T, typename R, bool kAdd, bool kPacked>
class GemmaRow {
 public:
  __device__ __forceinline__ GemmaRow(const GemmaNormArguments<T, R>& a, int64 row)
      : a_(a),
        in_(a.in + row_offset(a.in_rows, row)),
        out_(a.out + row_offset(a.out_rows, row)),
        residual_(kAdd ? a.residual + row_offset(a.residual_rows, row) : nullptr) {}

  __device__ __forceinline__ int count(int pack) const { return a_.columns - pack * kPack; }

  // z of a pack, from x and the residual as it was.
  __device__ __forceinline__ void sum_of(float (&z)[kPack], int pack) const {
    read<kPacked>(z, in_ + pack * kPack, count(pack));
    if constexpr (kAdd) {
      float r[kPack];
      read<kPacked>(r, residual_ + pack * kPack, count(pack));
#pragma unroll
      for (int i = 0; i < kPack; ++i) z[i] = __fadd_rn(z[i], r[i]);
    }
  }

  __device__ __forceinline__ void finish(const float (&z)[kPack], int pack, float scale) const {
    float w[kPack], y[kPack];
    if (a_.half_weight)
      read<kPacked>(w, static_cast<const __half*>(a_.weight) + pack * kPack, count(pack));
    else
      read<kPacked>(w, static_cast<const float*>(a_.weight) + pack * kPack, count(pack));
#pragma unroll
    for (int i = 0; i < kPack; ++i) y[i] = __fmul_rn(__fmul_rn(z[i], scale), __fadd_rn(a_.offset, w[i]));
    if constexpr (kAdd) write<kPacked>(residual_ + pack * kPack, z, count(pack));
    write<kPacked>(out_ + pack * kPack, y, count(pack));
  }

 private:
  const GemmaNormArguments<T, R>& a_;
  const T* in_;
  T* out_;
  R* residual_;
};

__device__ __forceinline__ float add_squares(const float (&z)[kPack], float sum) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) sum = __fadd_rn(sum, __fmul_rn(z[i], z[i]));
  return sum;
}

// blockDim: (32, 8) for rows of one warp, else (32 * warps, 1).
template <typename T, typename R, bool kAdd, bool kPacked>
__device__ __forceinline__ void gemma_norm(const GemmaNormArguments<T, R>& a) {
  const int64 index = token_of_thread();
  if (index >= a.rows) return;  // a whole warp
  const GemmaRow<T, R, kAdd, kPacked> row(a, index);
  const int slot = threadIdx.x, packs = (a.columns + kPack - 1) / kPack;
  float kept[kKept][kPack], sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (slot + k * kSlots < packs) row.sum_of(kept[k], slot + k * kSlots);
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (slot + k * kSlots < packs) sum = add_squares(kept[k], sum);
  for (int pack = slot + kKept * kSlots; pack < packs; pack += kSlots) {
    float z[kPack];
    row.sum_of(z, pack);
    sum = add_squares(z, sum);
  }
  sum = blockDim.x == 32 ? group_sum(sum, 32) : block_sum(sum);
  const float mean = __fdiv_rn(sum, static_cast<float>(a.columns));
  const float scale = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, a.epsilon)));
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (slot + k * kSlots < packs) row.finish(kept[k], slot + k * kSlots, scale);
  for (int pack = slot + kKept * kSlots; pack < packs; pack += kSlots) {
    float z[kPack];
    row.sum_of(z, pack);
    row.finish(z, pack, scale);
  }
}

}  // namespace volta

#define VOLTA_GEMMA_NORM(types, T, R, kAdd)                                                          \
  extern "C" __global__ void __launch_bounds__(512)                                                  \
      gemma_rms_norm_##types##_packs_sm70(volta::GemmaNormArguments<T, R> a) {                       \
    volta::gemma_norm<T, R, kAdd, true>(a);                                                          \
  }                                                                                                  \
  extern "C" __global__ void __launch_bounds__(512)                                                  \
      gemma_rms_norm_##types##_single_sm70(volta::GemmaNormArguments<T, R> a) {                      \
    volta::gemma_norm<T, R, kAdd, false>(a);                                                         \
  }

VOLTA_GEMMA_NORM(f16_f16, __half, __half, false)
VOLTA_GEMMA_NORM(f16_f16_f16, __half, __half, true)
VOLTA_GEMMA_NORM(f16_f32_f16, __half, float, true)
VOLTA_GEMMA_NORM(f32_f32, float, float, false)
VOLTA_GEMMA_NORM(f32_f32_f32, float, float, true)
