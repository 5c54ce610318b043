// Merge of partial attention results by their log-sum-exp (decode context parallelism, split KV).
//
//   m = max_r l_r    w_r = b^(l_r - m)    out = round(sum_r w_r o_r / sum_r w_r)    L = m + log_b(sum_r w_r)
//   with a gate: out = round(out * round(sigmoid(gate))), what the merge and the two operations of an output gate give
//
// b is 2 or e. NaN and +infinity in l count as -infinity. A part with l = -infinity has weight 0 and its o does not count, NaN or not;
// when all parts are empty, out = 0 and L = -infinity.
//
// Contract   parts[part, token, head, element] with unit element stride; any other strides; at most 64 parts.
// Error      against the float64 oracle (kernels/reference/merge.py): 2^-20 max_r |o_r| before the rounding of out, for |l| up
//            to 64 (a difference l_r - m has the rounding error of its operands); L within 2^-21 (1 + |L|).
//            The gate adds one rounding of sigmoid and one of the product; sigmoid is within 2^-20 relative before its own, also
//            where it is subnormal.
// Layout     threadIdx.y: token in the block; threadIdx.x: item, a pack of N elements of one head.
// Resources  no shared memory, at most 56 registers, no spills.
// Method     the usual two passes over l, which is small and stays in the L1 cache.

#include "../common/fast_divide.h"
#include "common.cuh"

namespace volta {

template <typename P, typename T>
struct MergeArguments {
  T* out;
  int64 out_token, out_head;
  float* out_lse;  // or null
  int64 out_lse_token, out_lse_head;
  const P* parts;
  int64 part_stride, token_stride, head_stride;
  const float* lse;
  int64 lse_part, lse_token, lse_head;
  const T* gate;  // or null
  int64 gate_token, gate_head;
  int64 tokens;
  FastDivide packs;  // of a head: width / N
  int count, heads;
  bool base2;
};

__device__ __forceinline__ float cleaned(float lse) { return lse < VOLTA_INFINITY ? lse : -VOLTA_INFINITY; }

// The exponential of a negative number alone, so that nothing overflows.
__device__ __forceinline__ float sigmoid(float x) {
  const float small = expf(-fabsf(x));
  return (x < 0.0f ? small : 1.0f) / (1.0f + small);
}

template <typename P, typename T, int N>
__device__ __forceinline__ void merge_pack(const MergeArguments<P, T>& a, int64 token, int head, int at) {
  const float* lse = a.lse + token * a.lse_token + head * a.lse_head;
  float largest = -VOLTA_INFINITY;
  for (int r = 0; r < a.count; ++r) largest = fmaxf(largest, cleaned(lse[r * a.lse_part]));
  float total = 0.0f, sum[N] = {};
  const P* part = a.parts + token * a.token_stride + head * a.head_stride + at;
#pragma unroll 2
  for (int r = 0; r < a.count; ++r) {
    const Pack<P, N> o = load<P, N>(part + r * a.part_stride);  // on its way before its weight is known
    const float l = cleaned(lse[r * a.lse_part]);
    if (l == -VOLTA_INFINITY) continue;
    const float weight = a.base2 ? exp2f(l - largest) : expf(l - largest);
    total += weight;
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = fmaf(weight, to_float(o.at[i]), sum[i]);
  }
  Pack<T, N> result{};
  if (total > 0.0f) {
    const float inverse = 1.0f / total;
#pragma unroll
    for (int i = 0; i < N; ++i) result.at[i] = from_float<T>(sum[i] * inverse);
  }
  if (a.gate != nullptr) {
    const Pack<T, N> gate = load<T, N>(a.gate + token * a.gate_token + head * a.gate_head + at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const T open = from_float<T>(sigmoid(to_float(gate.at[i])));
      result.at[i] = from_float<T>(to_float(result.at[i]) * to_float(open));
    }
  }
  store<T, N>(a.out + token * a.out_token + head * a.out_head + at, result);
  if (at == 0 && a.out_lse != nullptr)
    a.out_lse[token * a.out_lse_token + head * a.out_lse_head] =
        total > 0.0f ? largest + (a.base2 ? log2f(total) : logf(total)) : -VOLTA_INFINITY;
}

template <typename P, typename T, int N>
__device__ __forceinline__ void merge(const MergeArguments<P, T>& a) {
  const int64 token = token_of_thread();
  if (token >= a.tokens) return;
  const int items = a.heads * a.packs.divisor;
  for (int item = threadIdx.x; item < items; item += blockDim.x) {
    const int head = a.packs(item);
    merge_pack<P, T, N>(a, token, head, (item - head * a.packs.divisor) * N);
  }
}

}  // namespace volta

#define VOLTA_MERGE(types, P, T, N)                                                                   \
  extern "C" __global__ void merge_attention_##types##_parts##N##_sm70(volta::MergeArguments<P, T> a) { \
    volta::merge<P, T, N>(a);                                                                         \
  }

VOLTA_MERGE(f16_f16, __half, __half, 8)
VOLTA_MERGE(f16_f16, __half, __half, 1)
VOLTA_MERGE(f32_f16, float, __half, 4)
VOLTA_MERGE(f32_f16, float, __half, 1)
VOLTA_MERGE(f32_f32, float, float, 4)
VOLTA_MERGE(f32_f32, float, float, 1)
