// Merge of partial attention results by their log-sum-exp (decode context parallelism, split KV, prefix and suffix).
//
//   m = max_r l_r    w_r = b^(l_r - m)    out = round(sum_r w_r o_r / sum_r w_r)    L = m + log_b(sum_r w_r)
//   with a gate: out = round(out * round(sigmoid(gate))), what the merge and the two operations of an output gate give
//
// b is 2 or e. A part with l = -infinity has weight 0 and its o does not count, NaN or not.
//   merge_attention     NaN and +infinity in l count as -infinity; when all parts are empty, out = 0 and L = -infinity
//   merge_attn_states   upstream's rules: infinities of either sign count as -infinity, NaN stays NaN; when both parts are
//                       empty, out is the first part's and L = -infinity; tokens without context are copied from the second
//
// Contract   part[token, head, element] with unit element stride; any other strides; at most 64 parts.
// Error      against the float64 oracle (kernels/reference/merge.py): 2^-20 max_r |o_r| before the rounding of out, for |l| up
//            to 64 (a difference l_r - m has the rounding error of its operands); L within 2^-21 (1 + |L|). Copies are exact.
//            The gate adds one rounding of sigmoid and one of the product; sigmoid is within 2^-20 relative before its own, also
//            where it is subnormal.
// Layout     a row of threads (threadIdx.y) takes one head of one token, or, of two parts, two heads; threadIdx.x: pack of N
//            elements.
// Resources  no shared memory, at most 64 registers, no spills.
// Method     two parts: everything is loaded before anything is needed. More: the usual two passes over l, which is small and
//            stays in the L1 cache.

#include "../common/merge.h"
#include "common.cuh"

namespace volta {

struct MergedRow {
  int64 token;
  int head;
};

// False for a row past the last one. Each row takes `heads_of_a_row` heads.
__device__ __forceinline__ bool find_row(const MergeTarget& t, int heads_of_a_row, MergedRow& row) {
  const int64 number = token_of_thread();
  if (number >= t.rows) return false;
  const unsigned token = t.groups(static_cast<unsigned>(number));
  row.token = token;
  row.head = static_cast<int>(static_cast<unsigned>(number) - token * t.groups.divisor) * heads_of_a_row;
  return true;
}

__device__ __forceinline__ float cleaned(float lse) { return lse < VOLTA_INFINITY ? lse : -VOLTA_INFINITY; }

// The exponential of a negative number alone, so that nothing overflows.
__device__ __forceinline__ float sigmoid(float x) {
  const float small = expf(-fabsf(x));
  return (x < 0.0f ? small : 1.0f) / (1.0f + small);
}

__device__ __forceinline__ float power(float x, bool base2) { return base2 ? exp2f(x) : expf(x); }

__device__ __forceinline__ float log_sum(float largest, float total, bool base2) {
  return total == 0.0f ? -VOLTA_INFINITY : largest + (base2 ? log2f(total) : logf(total));
}

// Weighted sums of packs, and what becomes of them.
template <int N>
struct Sum {
  float at[N] = {};
  float total = 0.0f;

  template <typename P>
  __device__ __forceinline__ void add(const Pack<P, N>& o, float weight) {
    total += weight;
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] = fmaf(weight, to_float(o.at[i]), at[i]);
  }
  template <typename T>
  __device__ __forceinline__ Pack<T, N> rounded() const {
    Pack<T, N> result{};
    if (total == 0.0f) return result;
    const float inverse = 1.0f / total;
#pragma unroll
    for (int i = 0; i < N; ++i) result.at[i] = from_float<T>(at[i] * inverse);
    return result;
  }
};

template <typename T, int N>
__device__ __forceinline__ Pack<T, N> gated(const MergeTarget& t, const MergedRow& row, int at, Pack<T, N> result) {
  if (t.gate == nullptr) return result;
  const T* gate = static_cast<const T*>(t.gate) + row.token * t.gate_token + row.head * t.gate_head + at;
  const Pack<T, N> gates = load<T, N>(gate);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const T open = from_float<T>(sigmoid(to_float(gates.at[i])));
    result.at[i] = from_float<T>(to_float(result.at[i]) * to_float(open));
  }
  return result;
}

template <typename T, int N>
__device__ __forceinline__ void write(
    const MergeTarget& t, const MergedRow& row, int at, const Pack<T, N>& result, float lse) {
  store<T, N>(static_cast<T*>(t.out) + row.token * t.token + row.head * t.head + at, result);
  if (at == 0 && t.lse != nullptr) t.lse[row.token * t.lse_token + row.head * t.lse_head] = lse;
}

template <typename P, typename T, int N>
__device__ __forceinline__ void merge(const MergeArguments& a) {
  MergedRow row;
  if (!find_row(a.target, 1, row)) return;
  const float* lse = a.lse + row.token * a.lse_token + row.head * a.lse_head;
  for (int at = threadIdx.x * N; at < a.target.width; at += blockDim.x * N) {
    float largest = -VOLTA_INFINITY;
    for (int r = 0; r < a.count; ++r) largest = fmaxf(largest, cleaned(lse[r * a.lse_part]));
    Sum<N> sum;
    const P* part = static_cast<const P*>(a.parts) + row.token * a.token + row.head * a.head + at;
#pragma unroll 4
    for (int r = 0; r < a.count; ++r) {
      const Pack<P, N> o = load<P, N>(part + r * a.part);  // on its way before its weight is known
      const float l = cleaned(lse[r * a.lse_part]);
      if (l != -VOLTA_INFINITY) sum.add(o, power(l - largest, a.target.base2));
    }
    write<T, N>(
        a.target, row, at, gated(a.target, row, at, sum.template rounded<T>()),
        log_sum(largest, sum.total, a.target.base2));
  }
}

// Two packs of one head and their log-sum-exps.
template <typename P, int N>
struct Two {
  Pack<P, N> o[2];
  float lse[2];
};

template <typename P, int N>
__device__ __forceinline__ void load_part(
    const MergePart& part, const MergedRow& row, int at, Pack<P, N>& o, float& lse) {
  o = load<P, N>(static_cast<const P*>(part.out) + row.token * part.token + row.head * part.head + at);
  lse = part.lse[row.token * part.lse_token + row.head * part.lse_head];
}

// Rules of merge_attention.
template <typename T, typename P, int N>
__device__ __forceinline__ void merge_two(const MergeTarget& t, const MergedRow& row, int at, const Two<P, N>& x) {
  const float lse[2] = {cleaned(x.lse[0]), cleaned(x.lse[1])}, largest = fmaxf(lse[0], lse[1]);
  Sum<N> sum;
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (lse[r] != -VOLTA_INFINITY) sum.add(x.o[r], power(lse[r] - largest, t.base2));
  write<T, N>(
      t, row, at, gated(t, row, at, sum.template rounded<T>()), log_sum(largest, sum.total, t.base2));
}

// Rules of merge_attn_states; of a token without context (`copied`) there is the second part alone.
template <typename T, int N>
__device__ __forceinline__ void merge_states(
    const MergeTarget& t, const MergedRow& row, int at, bool copied, const Two<T, N>& x) {
  float lse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) lse[r] = isinf(x.lse[r]) ? -VOLTA_INFINITY : x.lse[r];
  const float largest = fmaxf(lse[0], lse[1]);
  Pack<T, N> result = copied ? x.o[1] : x.o[0];
  float out_lse = copied ? x.lse[1] : -VOLTA_INFINITY;
  if (!copied && largest != -VOLTA_INFINITY) {
    Sum<N> sum;
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (lse[r] != -VOLTA_INFINITY) sum.add(x.o[r], expf(lse[r] - largest));
    result = sum.template rounded<T>();
    out_lse = log_sum(largest, sum.total, false);
  }
  write<T, N>(t, row, at, result, out_lse);
}

template <typename P, typename T, int N, bool kStates>
__device__ __forceinline__ void merge_pair(const MergePairArguments& a) {
  MergedRow row;
  if (!find_row(a.target, kHeadsOfAPair, row)) return;
  const bool copied = kStates && row.token >= a.merged_tokens;
  for (int at = threadIdx.x * N; at < a.target.width; at += blockDim.x * N) {
    Two<P, N> x[kHeadsOfAPair];
#pragma unroll
    for (int k = 0; k < kHeadsOfAPair; ++k) {
      const MergedRow head = {row.token, row.head + k};
      if (head.head >= a.target.heads) break;
      if (!copied) load_part<P, N>(a.parts[0], head, at, x[k].o[0], x[k].lse[0]);
      load_part<P, N>(a.parts[1], head, at, x[k].o[1], x[k].lse[1]);
    }
#pragma unroll
    for (int k = 0; k < kHeadsOfAPair; ++k) {
      const MergedRow head = {row.token, row.head + k};
      if (head.head >= a.target.heads) break;
      if constexpr (kStates)
        merge_states<T, N>(a.target, head, at, copied, x[k]);
      else
        merge_two<T>(a.target, head, at, x[k]);
    }
  }
}

}  // namespace volta

#define VOLTA_MERGE_KERNEL extern "C" __global__ void __launch_bounds__(volta::kThreadsOfRows, 8)

#define VOLTA_MERGE(types, P, T, N)                                                                \
  VOLTA_MERGE_KERNEL merge_attention_##types##_parts##N##_sm70(volta::MergeArguments a) {          \
    volta::merge<P, T, N>(a);                                                                      \
  }                                                                                                \
  VOLTA_MERGE_KERNEL merge_attention_##types##_pair##N##_sm70(volta::MergePairArguments a) {       \
    volta::merge_pair<P, T, N, false>(a);                                                          \
  }

#define VOLTA_MERGE_STATES(types, T, N)                                                            \
  VOLTA_MERGE_KERNEL merge_attn_states_##types##_pair##N##_sm70(volta::MergePairArguments a) {     \
    volta::merge_pair<T, T, N, true>(a);                                                           \
  }

VOLTA_MERGE(f16_f16, __half, __half, 8)
VOLTA_MERGE(f16_f16, __half, __half, 1)
VOLTA_MERGE(f32_f16, float, __half, 4)
VOLTA_MERGE(f32_f16, float, __half, 1)
VOLTA_MERGE(f32_f32, float, float, 4)
VOLTA_MERGE(f32_f32, float, float, 1)
VOLTA_MERGE_STATES(f16_f16, __half, 8)
VOLTA_MERGE_STATES(f16_f16, __half, 1)
VOLTA_MERGE_STATES(f32_f32, float, 4)
VOLTA_MERGE_STATES(f32_f32, float, 1)
