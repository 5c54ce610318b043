// topk_softmax, topk_sigmoid and topk_softplus_sqrt: checks, launch, and the CPU implementation. The contract is in
// kernels/cuda/topk.cu.
#include <torch/headeronly/util/Half.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "operators.h"
#include "routing.h"
#include "tensor.h"

namespace volta {
namespace {

// The argument of the kernels, as in topk.cu.
struct Arguments {
  const void* gating;
  long long gating_stride;
  float* weights;
  void* ids;
  int* source_rows;
  const float* bias;
  const bool* padding;
  Ids tokens, table;
  const float* image_bias;
  long long image_start, vocabulary;
  long long rows;
  int experts, k;
  float factor;
  bool wide_ids, renormalise;
};

constexpr int kImageTokens = 5;

#define VOLTA_KERNELS(op) {{"topk", op "_f32_f32_rows_sm70"}, {"topk", op "_f16_f32_rows_sm70"}}
Kernel softmax_kernels[2] = VOLTA_KERNELS("topk_softmax");
Kernel sigmoid_kernels[2] = VOLTA_KERNELS("topk_sigmoid");
Kernel softplus_sqrt_kernels[2] = VOLTA_KERNELS("topk_softplus_sqrt");
#undef VOLTA_KERNELS

// Lanes follow from the number of experts alone, so that the order of the sum does too.
void launch_topk(Kernel (&kernels)[2], const View& gating, const Arguments& a) {
  Shape shape;
  while (shape.block_x < 32 && static_cast<int>(shape.block_x) < a.experts) shape.block_x *= 2;
  shape.block_y = 128 / shape.block_x;
  shape.grid_x = static_cast<unsigned>((a.rows + shape.block_y - 1) / shape.block_y);
  launch(kernels[gating.dtype == ScalarType::Half], gating.device, shape, a);
}

using Scores = std::vector<float>;

void softmax(Scores& x) {
  float largest = -INFINITY;
  for (const float logit : x) largest = std::fmax(largest, logit);
  double sum = 0;
  for (const float logit : x) sum += std::exp(logit - largest);
  const float total = static_cast<float>(sum);
  for (float& logit : x) logit = std::exp(logit - largest) / total;
}

void sigmoid(Scores& x) {
  for (float& logit : x) logit = 1.0f / (1.0f + std::exp(-logit));
}

void softplus_sqrt(Scores& x) {
  for (float& logit : x) logit = std::sqrt(logit > 20.0f ? logit : std::log1p(std::exp(logit)));
}

bool is_image(const Arguments& a, std::int64_t row) {
  return a.image_bias != nullptr && a.tokens[row] >= a.image_start && a.tokens[row] < a.image_start + kImageTokens;
}

void choose(const Arguments& a, const Scores& scores, const float* bias, std::vector<int>& order) {
  order.resize(a.experts);
  std::iota(order.begin(), order.end(), 0);
  best_first(order, a.k, [&](int e) { return bias == nullptr ? scores[e] : scores[e] + bias[e]; });
}

void take_listed(const Arguments& a, std::int64_t row, std::vector<int>& order) {
  const std::int64_t token = a.tokens[row];
  order.assign(a.k, -1);
  if (token < 0 || token >= a.vocabulary) return;
  for (int j = 0; j < a.k; ++j) {
    const std::int64_t expert = a.table[token * a.k + j];
    if (expert >= 0 && expert < a.experts) order[j] = static_cast<int>(expert);
  }
}

void write_row(const Arguments& a, std::int64_t row, const Scores& scores, const std::vector<int>& order) {
  float sum = 0;
  for (int j = 0; j < a.k; ++j) sum += order[j] < 0 ? 0.0f : scores[order[j]];
  const float divisor = a.renormalise && sum > 0 ? sum : 1.0f;
  const bool padding = a.padding != nullptr && a.padding[row];
  for (int j = 0; j < a.k; ++j) {
    const std::int64_t at = row * a.k + j;
    const int id = padding ? -1 : order[j];
    a.weights[at] = (order[j] < 0 ? 0.0f : scores[order[j]]) / divisor * a.factor;
    if (a.wide_ids) static_cast<std::int64_t*>(a.ids)[at] = id; else static_cast<int*>(a.ids)[at] = id;
    a.source_rows[at] = static_cast<int>(j * a.rows + row);
  }
}

template <typename T>
void on_cpu(const Arguments& a, void (*score)(Scores&)) {
  parallel(a.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    Scores scores(a.experts);
    std::vector<int> order;
    for (std::int64_t row = begin; row < end; ++row) {
      const T* gating = static_cast<const T*>(a.gating) + row * a.gating_stride;
      for (int e = 0; e < a.experts; ++e) scores[e] = static_cast<float>(gating[e]);
      score(scores);
      for (float& s : scores) s = finite_or_zero(s);
      const bool image = is_image(a, row);
      if (a.table.data != nullptr && !image) take_listed(a, row, order);
      else choose(a, scores, image ? a.image_bias : a.bias, order);
      write_row(a, row, scores, order);
    }
  });
}

const float* bias_of(const Checker& check, const std::optional<View>& bias, const View& gating) {
  if (!bias.has_value()) return nullptr;
  check.vector(*bias, ScalarType::Float, gating.size(1), gating);
  return bias->as<const float>();
}

const bool* padding_of(const Checker& check, const std::optional<View>& padding, const View& gating) {
  if (!padding.has_value()) return nullptr;
  check.vector(*padding, ScalarType::Bool, gating.size(0), gating);
  return padding->as<const bool>();
}

// What the three operators share.
Arguments common(
    const Checker& check, const View& gating, const Tensor& weights_, const Tensor& ids_, const Tensor& source_rows_,
    bool renormalise, const std::optional<Tensor>& bias, const std::optional<Tensor>& padding) {
  const View weights = check.view(weights_, "topk_weights"), ids = check.view(ids_, "topk_indices");
  const View source_rows = check.view(source_rows_, "token_expert_indices");
  check.float_type(gating);
  check.dim(gating, 2);
  check.unit_stride(gating);
  for (const View* view : {&weights, &ids, &source_rows}) {
    check.dim(*view, 2);
    check.size(*view, 0, gating.size(0));
    check.size(*view, 1, weights.size(1));
    check.contiguous(*view);
    check.same_device(*view, gating);
  }
  check.dtype(weights, ScalarType::Float);
  check.dtype(source_rows, ScalarType::Int);
  Arguments a{};
  a.wide_ids = check.ids(ids).wide;
  a.gating = gating.data, a.gating_stride = gating.stride(0);
  a.weights = weights.as<float>(), a.ids = ids.data, a.source_rows = source_rows.as<int>();
  a.rows = check.small(gating.size(0), "the number of rows");
  a.experts = check.small(gating.size(1), "the number of experts");
  a.k = check.small(weights.size(1), "the number of experts a row");
  check.that(a.k <= a.experts, "topk_weights has more columns than there are experts");
  check.small(a.rows * a.k, "the number of rows times experts a row");
  a.bias = bias_of(check, check.view(bias, "bias"), gating);
  a.padding = padding_of(check, check.view(padding, "is_padding"), gating);
  a.renormalise = renormalise;
  a.factor = 1.0f;
  return a;
}

void run(Kernel (&kernels)[2], void (*score)(Scores&), const View& gating, const Arguments& a) {
  if (a.rows == 0 || a.k == 0) return;
  if (gating.device >= 0) return launch_topk(kernels, gating, a);
  gating.dtype == ScalarType::Half ? on_cpu<c10::Half>(a, score) : on_cpu<float>(a, score);
}

}  // namespace

void topk_softmax(
    const Tensor& weights, const Tensor& ids, const Tensor& source_rows, const Tensor& gating_, bool renormalise,
    const std::optional<Tensor>& bias, const std::optional<Tensor>& padding) {
  const Checker check("topk_softmax");
  const View gating = check.view(gating_, "gating_output");
  run(softmax_kernels, softmax, gating, common(check, gating, weights, ids, source_rows, renormalise, bias, padding));
}

void topk_sigmoid(
    const Tensor& weights, const Tensor& ids, const Tensor& source_rows, const Tensor& gating_, bool renormalise,
    const std::optional<Tensor>& bias, double factor, const std::optional<Tensor>& padding) {
  const Checker check("topk_sigmoid");
  const View gating = check.view(gating_, "gating_output");
  Arguments a = common(check, gating, weights, ids, source_rows, renormalise, bias, padding);
  a.factor = static_cast<float>(factor);
  run(sigmoid_kernels, sigmoid, gating, a);
}

void topk_softplus_sqrt(
    const Tensor& weights, const Tensor& ids, const Tensor& source_rows, const Tensor& gating_, bool renormalise,
    double factor, const std::optional<Tensor>& bias, const std::optional<Tensor>& tokens,
    const std::optional<Tensor>& table, const std::optional<Tensor>& padding, const std::optional<Tensor>& image_bias,
    std::int64_t image_start) {
  const Checker check("topk_softplus_sqrt");
  const View gating = check.view(gating_, "gating_output");
  Arguments a = common(check, gating, weights, ids, source_rows, renormalise, bias, padding);
  a.factor = static_cast<float>(factor);
  a.image_bias = bias_of(check, check.view(image_bias, "bias_vl"), gating);
  if (image_start <= 0) a.image_bias = nullptr;
  a.image_start = image_start;
  const bool by_token = table.has_value() || a.image_bias != nullptr;
  check.that(!by_token || tokens.has_value(), "tid2eid and bias_vl need input_ids");
  if (by_token) {
    const View view = check.view(*tokens, "input_ids");
    check.dim(view, 1);
    check.size(view, 0, gating.size(0));
    check.same_device(view, gating);
    a.tokens = check.ids(view);
  }
  if (table.has_value()) {
    const View view = check.view(*table, "tid2eid");
    check.dim(view, 2);
    check.size(view, 1, a.k);
    check.same_device(view, gating);
    a.table = check.ids(view);
    a.vocabulary = view.size(0);
  }
  run(softplus_sqrt_kernels, softplus_sqrt, gating, a);
}

}  // namespace volta
