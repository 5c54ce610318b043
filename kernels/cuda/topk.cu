// Routing of tokens to experts: the k best scores of each row of router logits.
//
//   topk_softmax:        s_e = exp(x_e - m) / sum_e exp(x_e - m),  m = max_e x_e
//   topk_sigmoid:        s_e = 1 / (1 + exp(-x_e))
//   topk_softplus_sqrt:  s_e = sqrt(x_e > 20 ? x_e : log(1 + exp(x_e)))
//
//   choice_e = s_e + bias_e        the k largest choices win, the lower expert where two are equal
//   weight   = s_e / d * factor    d = the winners' sum of s if renormalised and positive, otherwise 1
//
// Contract   gating[row, expert] with unit stride inside a row, any stride between rows; any number of experts and
//            k <= experts; outputs dense: weights fp32, ids int32 or int64, source_rows[row, j] = j * rows + row (int32).
//            A score that is not finite counts as 0: a softmax row with NaN or +infinity, or all -infinity, picks experts
//            0 .. k - 1 with weight 0 (upstream's rule, so that padding rows never name an expert twice). A choice that
//            is NaN comes last. Rows marked as padding get the id -1; their weights stay.
//            With a table, a row takes the experts table[token] in their order, whatever the choices; a token or expert
//            that does not exist gives the id -1 and the weight 0. With an image bias, rows whose token is one of the five from
//            image_start on choose by it, in place of the bias and of the table.
// Upstream   vLLM's csrc/libtorch_stable/moe/topk_softmax_kernels.cu and topk_softplus_sqrt_kernels.cu with these arguments,
//            and router/fused_topk_bias_router.py of 0.32.0, for scores, ties, bias, padding, table and image tokens. Different
//            on purpose: there a choice below -1 or below -10^4, by the number of experts, may name an expert twice; the
//            factor is divided by the sum first, which overflows for tiny sums; log(1 + exp(x)) is 0 below -17; softplus_sqrt
//            lets an infinite score pass.
// Error      against the float64 oracle (kernels/reference/topk.py), relative, for scores and sums of at least 2^-126:
//            (64 + experts / 16 + 2 d) 2^-24, d = the distance of a winner's logit from m (softmax; 0 otherwise). The
//            order is that of the fp32 choices: choices further apart than their errors come in the oracle's order, equal
//            inputs in that of their experts.
// Layout     threadIdx.y: row in the block; its 1 .. 32 lanes take experts lane, lane + width, ... A lane keeps its first
//            kHeld choices in shared memory; any others (more than 512 experts) it computes again in each of the k passes.
// Order      depends on the number of experts alone: the same bits for every batch size.
// Resources  8 KiB of shared memory, at most 64 registers, no spills.
// Method     one pass over the row for each winner; routing.cuh says how they follow one another.

#include "routing.cuh"

namespace volta {

constexpr int kImageTokens = 5;

template <typename T>
struct TopkArguments {
  const T* gating;
  int64 gating_stride;
  float* weights;
  void* ids;
  int* source_rows;
  const float* bias;        // [experts] or null
  const bool* padding;      // [rows] or null
  Ids tokens;               // [rows] or null
  Ids table;                // [vocabulary, k] or null
  const float* image_bias;  // [experts] or null
  int64 image_start, vocabulary;
  int64 rows;
  int experts, k;
  float factor;
  bool wide_ids, renormalise;
};

template <typename T>
__device__ __forceinline__ bool is_image(const TopkArguments<T>& a, int64 row) {
  if (a.image_bias == nullptr || row >= a.rows) return false;
  const int64 beyond = a.tokens[row] - a.image_start;
  return beyond >= 0 && beyond < kImageTokens;
}

// The j-th expert that the table has for a row, or -1.
template <typename T>
__device__ __forceinline__ int listed_expert(const TopkArguments<T>& a, int64 row, int j) {
  const int64 token = a.tokens[row];
  if (token < 0 || token >= a.vocabulary) return -1;
  const int64 expert = a.table[token * a.k + j];
  return expert >= 0 && expert < a.experts ? static_cast<int>(expert) : -1;
}

template <typename T>
__device__ __forceinline__ void write_winner(const TopkArguments<T>& a, int64 row, int j, int expert, float score) {
  const int64 at = row * a.k + j;
  const int id = a.padding != nullptr && a.padding[row] ? -1 : expert;
  a.weights[at] = score;
  if (a.wide_ids) static_cast<int64*>(a.ids)[at] = id; else static_cast<int*>(a.ids)[at] = id;
  a.source_rows[at] = static_cast<int>(j * a.rows + row);
}

// blockDim = (width, rows of the block).
template <typename T, typename Score>
__device__ __forceinline__ void topk(const TopkArguments<T>& a) {
  __shared__ float held[kHeld * kThreads];
  const int64 row = token_of_thread();
  const int lane = threadIdx.x, width = blockDim.x;
  const bool active = row < a.rows;
  const bool choosing = a.table.data == nullptr || a.image_bias != nullptr;  // the same for all lanes of a warp
  const int experts = active ? a.experts : 0;
  const T* x = a.gating + row * a.gating_stride;
  const FloatBias bias{is_image(a, row) ? a.image_bias : a.bias};
  const Row<T, Score, FloatBias> candidates(
      x, bias, experts, lane, width, held + threadIdx.y * width + lane, Score::of(x, experts, lane, width));
  const bool listed = a.table.data != nullptr && !is_image(a, row);
  uint64 last = ~0ull;
  float sum = 0.0f;
  for (int j = 0; j < a.k; ++j) {
    if (choosing) last = candidates.next(last, [](int) { return true; });
    if (!active) continue;
    const int expert = listed ? listed_expert(a, row, j) : expert_of_key(last);
    const float score = expert < 0 ? 0.0f : candidates.score(expert);
    sum += score;
    if (j % width == lane) write_winner(a, row, j, expert, score);
  }
  if (!active) return;
  const float divisor = a.renormalise && sum > 0.0f ? sum : 1.0f;
  for (int j = lane; j < a.k; j += width) {  // the weights that this lane wrote
    float& weight = a.weights[row * a.k + j];
    weight = weight / divisor * a.factor;
  }
}

}  // namespace volta

#define VOLTA_TOPK_TYPE(name, Score, type, T)                                                       \
  extern "C" __global__ void topk_##name##_##type##_f32_rows_sm70(volta::TopkArguments<T> a) {      \
    volta::topk<T, volta::Score>(a);                                                                \
  }
#define VOLTA_TOPK(name, Score)              \
  VOLTA_TOPK_TYPE(name, Score, f32, float)   \
  VOLTA_TOPK_TYPE(name, Score, f16, __half)

VOLTA_TOPK(softmax, Softmax)
VOLTA_TOPK(sigmoid, Sigmoid)
VOLTA_TOPK(softplus_sqrt, SoftplusSqrt)
