// Routing of tokens to experts that stand in groups: the best groups of a row, and the k best experts of these.
//
//   s_e      = x_e, or 1 / (1 + exp(-x_e))            choice_e = s_e + bias_e
//   group    = sum of its two largest choices (of its only one); the largest win, the lower group where two are equal
//   experts  = the k largest choices of the groups that won, the lower expert where two are equal
//   weight   = s_e / d * factor                       d = the winners' sum of s + 1e-20 if renormalised, otherwise 1
//
// Contract   scores[row, expert] with unit stride inside a row, any stride between rows; bias in fp16 or fp32; at most 32
//            groups of equal size, any number of experts; results dense: weights fp32, ids int32. A score that is not
//            finite counts as 0, a choice or group that is NaN comes last.
// Upstream   vLLM's csrc/libtorch_stable/moe/grouped_topk_kernels.cu with these arguments, and grouped_topk in
//            router/grouped_topk_router.py of 0.32.0. Different on purpose: there k is at most 32; a group of one expert never
//            wins; float16 scores are added in float16 for some sizes; and where too few groups are finite, experts 0 .. k - 1
//            get the weight 1 / k.
// Error      against the float64 oracle (kernels/reference/topk.py), relative, for scores and sums of at least 2^-126:
//            64 * 2^-24. The order is that of the fp32 choices and group sums: those further apart than their errors come
//            in the oracle's order.
// Layout     threadIdx.y: row in the block; a warp takes a row, lane l the experts l, l + 32, ... and the group l.
// Order      depends on the number of experts and k alone: the same bits for every batch size.
// Resources  8 KiB of shared memory, at most 64 registers, no spills.
// Method     two passes over the row for each group and one for each winner; routing.cuh says how they follow one another.

#include "../common/fast_divide.h"
#include "routing.cuh"

namespace volta {

template <typename T>
struct GroupedArguments {
  const T* scores;
  int64 score_stride;
  const void* bias;
  float* weights;
  int* ids;
  int64 rows;
  int experts, groups, winning_groups, k;
  FastDivide group_size;
  float factor;
  bool sigmoid, half_bias, renormalise;
};

struct GivenScore {
  bool sigmoid;
  __device__ __forceinline__ float operator()(float x) const {
    return finite_or_zero(sigmoid ? 1.0f / (1.0f + expf(-x)) : x);
  }
};

struct AnyBias {
  const void* at;
  bool half;
  __device__ __forceinline__ float operator()(int expert) const {
    return half ? to_float(static_cast<const __half*>(at)[expert]) : static_cast<const float*>(at)[expert];
  }
};

// One bit for each group that wins, by a whole warp.
template <typename T, typename Candidates>
__device__ __forceinline__ unsigned winning_groups(const GroupedArguments<T>& a, const Candidates& row, int lane) {
  if (a.winning_groups == a.groups) return 0xffffffffu;
  uint64 mine = 0;
  for (int g = 0; g < a.groups; ++g) {
    const auto inside = [&](int e) { return a.group_size(e) == g; };
    const uint64 first = row.next(~0ull, inside), second = row.next(first, inside);
    const float sum = choice_of_key(first) + (second == 0 ? 0.0f : choice_of_key(second));
    if (lane == g) mine = choice_key(sum, g);
  }
  unsigned winners = 0;
  uint64 last = ~0ull;
  for (int j = 0; j < a.winning_groups; ++j) {
    last = group_max(mine < last ? mine : 0ull, 32);
    winners |= 1u << expert_of_key(last);
  }
  return winners;
}

// blockDim = (32, rows of the block).
template <typename T>
__device__ __forceinline__ void grouped_topk(const GroupedArguments<T>& a) {
  __shared__ float held[kHeld * kThreads];
  const int64 row = token_of_thread();
  const int lane = threadIdx.x;
  if (row >= a.rows) return;  // the whole warp
  const Row<T, GivenScore, AnyBias> candidates(
      a.scores + row * a.score_stride, AnyBias{a.bias, a.half_bias}, a.experts, lane, 32, held + threadIdx.y * 32 + lane,
      GivenScore{a.sigmoid});
  const unsigned groups = winning_groups(a, candidates, lane);
  uint64 last = ~0ull;
  float sum = 0.0f;
  for (int j = 0; j < a.k; ++j) {
    last = candidates.next(last, [&](int e) { return (groups >> a.group_size(e) & 1) != 0; });
    const int expert = expert_of_key(last);
    const float score = candidates.score(expert);
    sum += score;
    if (j % 32 == lane) {
      a.weights[row * a.k + j] = score;
      a.ids[row * a.k + j] = expert;
    }
  }
  const float divisor = a.renormalise ? sum + 1e-20f : 1.0f;
  for (int j = lane; j < a.k; j += 32) {  // the weights that this lane wrote
    float& weight = a.weights[row * a.k + j];
    weight = weight / divisor * a.factor;
  }
}

}  // namespace volta

extern "C" __global__ void grouped_topk_f32_f32_rows_sm70(volta::GroupedArguments<float> a) { volta::grouped_topk(a); }
extern "C" __global__ void grouped_topk_f16_f32_rows_sm70(volta::GroupedArguments<__half> a) { volta::grouped_topk(a); }
