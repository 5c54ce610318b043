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
//            With a table, a row takes the experts table[token] in their order, whatever the choices; a token or expert that
//            does not exist gives the id -1 and the weight 0. With an image bias, rows whose token is one of the five from
//            image_start on choose by it, in place of the bias and of the table.
// Error      against the float64 oracle (kernels/reference/topk.py), relative, for scores and sums of at least 2^-126:
//            (64 + experts / 16 + 2 d) 2^-24, d = the distance of a winner's logit from m (softmax; 0 otherwise). The
//            order is that of the fp32 choices: choices further apart than their errors come in the oracle's order, equal
//            inputs in that of their experts.
// Layout     threadIdx.y: row in the block; its 1 .. 32 lanes take experts lane, lane + width, ... A lane keeps its first
//            kHeld choices in shared memory; any others (more than 512 experts) it computes again in each of the k passes.
// Order      depends on the number of experts alone: the same bits for every batch size.
// Resources  8 KiB of shared memory, at most 64 registers, no spills.
// Method     a choice and its expert make one 64-bit key, larger is better; pass j takes the largest key below the one
//            that pass j - 1 took, so nothing has to be crossed out.

#include "common.cuh"

namespace volta {

constexpr int kThreads = 128;
constexpr int kHeld = 16;
constexpr int kImageTokens = 5;

template <typename T>
struct TopkArguments {
  const T* gating;
  int64 gating_stride;
  float* weights;
  void* ids;
  int* source_rows;
  const float* bias;    // [experts] or null
  const bool* padding;  // [rows] or null
  Ids tokens;           // [rows] or null
  Ids table;            // [vocabulary, k] or null
  const float* image_bias;  // [experts] or null
  int64 image_start, vocabulary;
  int64 rows;
  int experts, k;
  float factor;
  bool wide_ids, renormalise;
};

__device__ __forceinline__ float finite_or_zero(float x) { return fabsf(x) < VOLTA_INFINITY ? x : 0.0f; }

// Scores of one row. `of` is called by all lanes of the row's group.
struct Softmax {
  float largest, inverse;

  template <typename T>
  static __device__ __forceinline__ Softmax of(const T* x, int experts, int lane, int width) {
    float largest = -VOLTA_INFINITY, sum = 0.0f;
    for (int e = lane; e < experts; e += width) largest = fmaxf(largest, to_float(x[e]));
    largest = group_max(largest, width);
    for (int e = lane; e < experts; e += width) sum += expf(to_float(x[e]) - largest);
    return {largest, 1.0f / group_sum(sum, width)};
  }
  __device__ __forceinline__ float operator()(float x) const { return finite_or_zero(expf(x - largest) * inverse); }
};

struct Sigmoid {
  template <typename T>
  static __device__ __forceinline__ Sigmoid of(const T*, int, int, int) { return {}; }
  __device__ __forceinline__ float operator()(float x) const { return finite_or_zero(1.0f / (1.0f + expf(-x))); }
};

struct SoftplusSqrt {
  template <typename T>
  static __device__ __forceinline__ SoftplusSqrt of(const T*, int, int, int) { return {}; }
  __device__ __forceinline__ float operator()(float x) const {
    return finite_or_zero(sqrtf(x > 20.0f ? x : log1pf(expf(x))));
  }
};

// Larger for a better choice: by value, then by the lower expert. NaN is below everything, -0 is 0. Never 0.
__device__ __forceinline__ uint64 choice_key(float choice, int expert) {
  const unsigned bits = __float_as_uint(choice + 0.0f);
  const unsigned rank = choice != choice ? 0u : (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64>(rank) << 32 | ~static_cast<unsigned>(expert);
}

__device__ __forceinline__ int expert_of_key(uint64 key) { return static_cast<int>(~static_cast<unsigned>(key)); }

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

// One row by `width` lanes.
template <typename T, typename Score>
class Row {
 public:
  // A row that is not there has no experts, and its lanes only stay for the shuffles.
  __device__ __forceinline__ Row(const TopkArguments<T>& a, int64 row, int lane, int width, float* held)
      : x_(a.gating + row * a.gating_stride), bias_(a.bias), experts_(row < a.rows ? a.experts : 0), lane_(lane),
        width_(width), held_(held), score_(Score::of(x_, experts_, lane, width)) {
    if (is_image(a, row)) bias_ = a.image_bias;
    for (int h = 0; h < kHeld && lane + h * width < experts_; ++h) held_[h * kThreads] = choice(lane + h * width);
  }

  __device__ __forceinline__ float score(int expert) const { return score_(to_float(x_[expert])); }

  // The largest key below `last`; every lane gets it. Never called more often than there are experts.
  __device__ __forceinline__ uint64 next(uint64 last) const {
    uint64 best = 0;
    for (int h = 0; lane_ + h * width_ < experts_; ++h) {
      const int e = lane_ + h * width_;
      const uint64 key = choice_key(h < kHeld ? held_[h * kThreads] : choice(e), e);
      if (key < last && key > best) best = key;
    }
    return group_max(best, width_);
  }

 private:
  __device__ __forceinline__ float choice(int expert) const {
    const float s = score(expert);
    return bias_ == nullptr ? s : s + bias_[expert];
  }

  const T* x_;
  const float* bias_;
  int experts_, lane_, width_;
  float* held_;  // number h is kThreads * h further on
  Score score_;
};

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
  const Row<T, Score> candidates(a, row, lane, width, held + threadIdx.y * width + lane);
  const bool listed = a.table.data != nullptr && !is_image(a, row);
  uint64 last = ~0ull;
  float sum = 0.0f;
  for (int j = 0; j < a.k; ++j) {
    if (choosing) last = candidates.next(last);
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
