// Sum of the outputs of a token's experts.
//
//   out[t, :] = round(sum over j = 0 .. k - 1 of in[t, j, :]), in fp32 and in that order, one rounding to the output type
//
// Contract   in[token, j, element] and ids[token, j] with any strides; out dense. With ids, entry (t, j) is left out, whatever it holds, when
//            its expert is negative, or outside the expert map, or mapped to a negative number.
// Upstream   the same file as for moe_align.cu: fp32, in order, entries with an expert below 0 or mapped below 0 left out.
//            There an id beyond the map is read beyond it.
// Error      none: the oracle (kernels/reference/moe.py) adds in the same order and type.
// Layout     threadIdx.y: token in the block; threadIdx.x: item, a pack of N elements.
// Resources  no shared memory, at most 64 registers, no spills.
// Method     one pass, several experts' loads under way together.

#include "common.cuh"

namespace volta {

template <typename T>
struct SumArguments {
  T* out;
  const T* in;
  int64 token_stride, expert_stride, element_stride;  // of elements: 1 where N > 1
  Ids ids;         // [tokens, k] or null
  int64 id_token_stride, id_expert_stride;
  const int* map;  // [experts] or null
  int64 experts;   // of the map
  int64 tokens;
  int k, columns;
};

template <typename T>
__device__ __forceinline__ bool left_out(const SumArguments<T>& a, int64 token, int j) {
  if (a.ids.data == nullptr) return false;
  const int64 id = a.ids[token * a.id_token_stride + j * a.id_expert_stride];
  return id < 0 || (a.map != nullptr && (id >= a.experts || a.map[id] < 0));
}

template <typename T, int N>
__device__ __forceinline__ void moe_sum(const SumArguments<T>& a) {
  const int64 token = token_of_thread();
  if (token >= a.tokens) return;
  for (int at = threadIdx.x * N; at < a.columns; at += blockDim.x * N) {
    const T* in = a.in + token * a.token_stride + at * a.element_stride;
    float sum[N] = {};
#pragma unroll 4
    for (int j = 0; j < a.k; ++j) {
      const Pack<T, N> x = load<T, N>(in + j * a.expert_stride);  // on its way before it is known to count
      if (left_out(a, token, j)) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += to_float(x.at[i]);
    }
    Pack<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out.at[i] = from_float<T>(sum[i]);
    store<T, N>(a.out + token * a.columns + at, out);
  }
}

}  // namespace volta

#define VOLTA_MOE_SUM(type, T, N)                                                                    \
  extern "C" __global__ void moe_sum_##type##_##type##_items##N##_sm70(volta::SumArguments<T> a) {   \
    volta::moe_sum<T, N>(a);                                                                         \
  }

VOLTA_MOE_SUM(f16, __half, 8)
VOLTA_MOE_SUM(f16, __half, 1)
VOLTA_MOE_SUM(f32, float, 4)
VOLTA_MOE_SUM(f32, float, 1)
