// grouped_topk: checks, launch, and the CPU implementation. The contract is in kernels/cuda/grouped_topk.cu.
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/util/Half.h>

#include <numeric>

#include "../common/fast_divide.h"
#include "operators.h"
#include "routing.h"
#include "tensor.h"

namespace volta {
namespace {

// The argument of the kernels, as in grouped_topk.cu.
struct Arguments {
  const void* scores;
  long long score_stride;
  const void* bias;
  float* weights;
  int* ids;
  long long rows;
  int experts, groups, winning_groups, k;
  FastDivide group_size;
  float factor;
  bool sigmoid, half_bias, renormalise;
};

constexpr int kMaxGroups = 32;

Kernel kernels[2] = {{"grouped_topk", "grouped_topk_f32_f32_rows_sm70"}, {"grouped_topk", "grouped_topk_f16_f32_rows_sm70"}};

float bias_of(const Arguments& a, int expert) {
  return a.half_bias ? static_cast<float>(static_cast<const c10::Half*>(a.bias)[expert])
                     : static_cast<const float*>(a.bias)[expert];
}

// The experts of the groups that win.
std::vector<int> candidates_of(const Arguments& a, const std::vector<float>& choices) {
  const int size = static_cast<int>(a.group_size.divisor);
  const auto choice = [&](int e) { return choices[e]; };
  std::vector<float> sums;
  for (int g = 0; g < a.groups; ++g) {
    std::vector<int> members(size);
    std::iota(members.begin(), members.end(), g * size);
    best_first(members, std::min(size, 2), choice);
    sums.push_back(size == 1 ? choices[members[0]] : choices[members[0]] + choices[members[1]]);
  }
  std::vector<int> groups(a.groups), experts;
  std::iota(groups.begin(), groups.end(), 0);
  best_first(groups, a.winning_groups, [&](int g) { return sums[g]; });
  for (int j = 0; j < a.winning_groups; ++j)
    for (int e = groups[j] * size; e < (groups[j] + 1) * size; ++e) experts.push_back(e);
  return experts;
}

template <typename T>
void on_cpu(const Arguments& a) {
  parallel(a.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scores(a.experts), choices(a.experts);
    for (std::int64_t row = begin; row < end; ++row) {
      for (int e = 0; e < a.experts; ++e) {
        const float x = static_cast<float>(static_cast<const T*>(a.scores)[row * a.score_stride + e]);
        scores[e] = finite_or_zero(a.sigmoid ? 1.0f / (1.0f + std::exp(-x)) : x);
        choices[e] = scores[e] + bias_of(a, e);
      }
      std::vector<int> experts = candidates_of(a, choices);
      best_first(experts, a.k, [&](int e) { return choices[e]; });
      float sum = 0;
      for (int j = 0; j < a.k; ++j) sum += scores[experts[j]];
      const float divisor = a.renormalise ? sum + 1e-20f : 1.0f;
      for (int j = 0; j < a.k; ++j) {
        a.weights[row * a.k + j] = scores[experts[j]] / divisor * a.factor;
        a.ids[row * a.k + j] = experts[j];
      }
    }
  });
}

void check_sizes(
    const Checker& check, const View& scores, std::int64_t groups, std::int64_t winning_groups, std::int64_t k) {
  check.that(groups > 0 && groups <= kMaxGroups, "n_group must be between 1 and 32");
  check.that(scores.size(1) > 0 && scores.size(1) % groups == 0, "the number of experts must be a multiple of n_group");
  check.that(winning_groups > 0 && winning_groups <= groups, "topk_group must be between 1 and n_group");
  check.that(
      k > 0 && k <= winning_groups * (scores.size(1) / groups),
      "topk must be between 1 and the number of experts in topk_group groups");
}

}  // namespace

std::tuple<Tensor, Tensor> grouped_topk(
    const Tensor& scores_, std::int64_t groups, std::int64_t winning_groups, std::int64_t k, bool renormalise, double factor,
    const Tensor& bias_, std::int64_t scoring) {
  const Checker check("grouped_topk");
  const View scores = check.view(scores_, "scores"), bias = check.view(bias_, "bias");
  check.float_type(scores);
  check.dim(scores, 2);
  check.unit_stride(scores);
  check.float_type(bias);
  check.vector(bias, bias.dtype, scores.size(1), scores);
  check.that(scoring == 0 || scoring == 1, "scoring_func must be 0 (scores as they are) or 1 (sigmoid)");
  check_sizes(check, scores, groups, winning_groups, k);
  Arguments a{};
  a.scores = scores.data, a.score_stride = scores.stride(0), a.bias = bias.data;
  a.rows = check.small(scores.size(0), "the number of rows");
  a.experts = check.small(scores.size(1), "the number of experts");
  a.groups = static_cast<int>(groups), a.winning_groups = static_cast<int>(winning_groups), a.k = static_cast<int>(k);
  a.group_size = FastDivide(static_cast<unsigned>(a.experts / a.groups));
  a.factor = static_cast<float>(factor);
  a.sigmoid = scoring == 1, a.half_bias = bias.dtype == ScalarType::Half, a.renormalise = renormalise;
  Tensor weights = torch::stable::new_empty(scores_, {scores.size(0), k}, ScalarType::Float);
  Tensor ids = torch::stable::new_empty(scores_, {scores.size(0), k}, ScalarType::Int);
  a.weights = check.view(weights, "topk_values").as<float>(), a.ids = check.view(ids, "topk_indices").as<int>();
  const bool half = scores.dtype == ScalarType::Half;
  if (a.rows > 0 && scores.device >= 0) {
    Shape shape;
    shape.block_x = 32, shape.block_y = 4;
    shape.grid_x = static_cast<unsigned>((a.rows + 3) / 4);
    launch(kernels[half ? 1 : 0], scores.device, shape, a);
  } else if (a.rows > 0) {
    half ? on_cpu<c10::Half>(a) : on_cpu<float>(a);
  }
  return {weights, ids};
}

}  // namespace volta
