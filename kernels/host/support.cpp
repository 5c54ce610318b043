// topk_topp_support: checks, launch, and the CPU implementation. The contract is in kernels/cuda/support.cu.
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "../common/exponential.h"
#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// The argument of the kernels, as in support.cu.
struct Arguments {
  int* tokens;
  long long token_stride;
  float* probabilities;
  long long probability_stride;
  int* counts;
  const void* logits;
  long long row_stride;
  const float* temperature;
  const int* top_k;
  const float* top_p;
  const int* request_of_row;
  int vocabulary, width, requests;
};

Kernel kernels[2] = {{"support", "topk_topp_support_f16_f32_rows_sm70"}, {"support", "topk_topp_support_f32_f32_rows_sm70"}};

constexpr int kWidest = 1024;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  float logit;
  int id;
};

bool precedes(const Candidate& x, const Candidate& y) { return x.logit != y.logit ? x.logit > y.logit : x.id < y.id; }

double weight_of(float x, float largest) {
  return x == largest ? 1.0 : exponential(static_cast<double>(x) - static_cast<double>(largest));
}

// The sum of w over the first `size` candidates, which are those above the last one and some of its equals.
double mass(const std::vector<Candidate>& found, int size, float temperature) {
  constexpr int kSlots = 1024;
  std::vector<double> slots(kSlots);
  const float largest = found[0].logit / temperature, border = found[size - 1].logit;
  std::vector<Candidate> above;
  std::copy_if(found.begin(), found.begin() + size, std::back_inserter(above), [&](const Candidate& c) {
    return c.logit > border;
  });
  std::sort(above.begin(), above.end(), [](const Candidate& x, const Candidate& y) { return x.id < y.id; });
  for (const Candidate& c : above) slots[c.id % kSlots] += weight_of(c.logit / temperature, largest);
  for (int half = kSlots / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) slots[i] += slots[i + half];
  return slots[0] + static_cast<double>(size - above.size()) * weight_of(border / temperature, largest);
}

// How many of the ordered weights top-p keeps; `sum` becomes their sum. `total` is the sum of all that top-k leaves, or
// negative when these are all. -1 if what top-p keeps goes on behind them.
int cut(const std::vector<double>& weights, float top_p, double total, double& sum) {
  const bool limited = top_p < 1.0f, all = total < 0;
  if (all) {
    total = 0;
    for (const double weight : weights) total += weight;
  }
  const double limit = static_cast<double>(top_p) * total;
  int kept = 0;
  sum = 0;
  while (kept < static_cast<int>(weights.size()) && (kept == 0 || !limited || sum < limit)) sum += weights[kept++];
  return !all && (!limited || sum < limit) ? -1 : kept;
}

// Writes the tokens of a row and their probabilities, and gives their number.
template <typename T>
int row_support(const Arguments& a, long long row, int* tokens, float* probabilities) {
  const int request = a.request_of_row == nullptr ? static_cast<int>(row) : a.request_of_row[row];
  if (request < 0 || request >= a.requests) return 0;
  const bool greedy = !(a.temperature[request] > 0);
  const float temperature = greedy ? 1.0f : a.temperature[request];
  const int k = greedy ? 1 : a.top_k[request] <= 0 ? a.vocabulary : a.top_k[request];
  const T* logits = static_cast<const T*>(a.logits) + row * a.row_stride;
  std::vector<Candidate> found;
  for (int id = 0; id < a.vocabulary; ++id)
    if (const float logit = static_cast<float>(logits[id]); logit > -kInfinity) found.push_back({logit, id});
  const int left = static_cast<int>(std::min<std::size_t>(k, found.size())), size = std::min(left, a.width);
  if (left == 0 || (left > size && !(a.top_p[request] < 1.0f))) return left == 0 ? 0 : -1;
  std::partial_sort(found.begin(), found.begin() + left, found.end(), precedes);
  std::vector<double> weights(size);
  for (int i = 0; i < size; ++i) weights[i] = weight_of(found[i].logit / temperature, found[0].logit / temperature);
  double sum = 0;
  const int kept = cut(weights, a.top_p[request], left > size ? mass(found, left, temperature) : -1.0, sum);
  if (kept < 0) return -1;
  std::vector<int> by_id(kept);
  for (int i = 0; i < kept; ++i) by_id[i] = i;
  std::sort(by_id.begin(), by_id.end(), [&](int i, int j) { return found[i].id < found[j].id; });
  for (int at = 0; at < kept; ++at)
    tokens[at] = found[by_id[at]].id, probabilities[at] = static_cast<float>(weights[by_id[at]] / sum);
  return kept;
}

template <typename T>
void on_cpu(const Arguments& a, std::int64_t rows) {
  parallel(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      int* tokens = a.tokens + row * a.token_stride;
      float* probabilities = a.probabilities + row * a.probability_stride;
      a.counts[row] = row_support<T>(a, row, tokens, probabilities);
      for (int i = std::max(a.counts[row], 0); i < a.width; ++i) tokens[i] = -1, probabilities[i] = 0;
    }
  });
}

}  // namespace

void topk_topp_support(
    const Tensor& tokens_, const Tensor& probabilities_, const Tensor& counts_, const Tensor& logits_,
    const Tensor& temperature_, const Tensor& top_k_, const Tensor& top_p_, const std::optional<Tensor>& request_of_row_) {
  const Checker check("topk_topp_support");
  const View tokens = check.view(tokens_, "tokens"), probabilities = check.view(probabilities_, "probabilities");
  const View counts = check.view(counts_, "counts"), logits = check.view(logits_, "logits");
  const View temperature = check.view(temperature_, "temperature");
  const View top_k = check.view(top_k_, "top_k"), top_p = check.view(top_p_, "top_p");
  const std::optional<View> request_of_row = check.view(request_of_row_, "request_of_row");
  check.float_type(logits);
  check.dim(logits, 2);
  check.unit_stride(logits);
  const std::int64_t rows = check.small(logits.size(0), "the number of rows");
  check.dim(tokens, 2);
  check.shaped(tokens, ScalarType::Int, {rows, tokens.size(1)}, logits);
  check.shaped(probabilities, ScalarType::Float, {rows, tokens.size(1)}, logits);
  check.that(tokens.size(1) >= 1 && tokens.size(1) <= kWidest, "tokens must have room for 1 to 1024 of each row");
  check.shaped(counts, ScalarType::Int, {rows}, logits);
  check.dim(temperature, 1);
  const std::int64_t requests = temperature.size(0);
  check.shaped(temperature, ScalarType::Float, {requests}, logits);
  check.shaped(top_k, ScalarType::Int, {requests}, logits);
  check.shaped(top_p, ScalarType::Float, {requests}, logits);
  if (request_of_row.has_value())
    check.shaped(*request_of_row, ScalarType::Int, {rows}, logits);
  else
    check.that(requests >= rows, "without request_of_row, temperature must have an entry for each row");
  if (rows == 0) return;
  const Arguments a{
      tokens.as<int>(), tokens.stride(0), probabilities.as<float>(), probabilities.stride(0), counts.as<int>(), logits.data,
      logits.stride(0), temperature.as<const float>(), top_k.as<const int>(), top_p.as<const float>(),
      request_of_row.has_value() ? request_of_row->as<const int>() : nullptr,
      check.small(logits.size(1), "the vocabulary"), static_cast<int>(tokens.size(1)), check.small(requests, "the requests")};
  const bool half = logits.dtype == ScalarType::Half;
  if (logits.device < 0) return half ? on_cpu<c10::Half>(a, rows) : on_cpu<float>(a, rows);
  Shape shape;
  shape.block_x = 1024;
  shape.grid_x = static_cast<unsigned>(rows);
  launch(kernels[half ? 0 : 1], logits.device, shape, a);
}

}  // namespace volta
