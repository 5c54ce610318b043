// compact_rejection: checks, launch, and the CPU implementation. The contract is in kernels/cuda/rejection.cu.
#include <algorithm>
#include <limits>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// The argument of the kernel, as in rejection.cu.
struct Arguments {
  long long* sampled;
  long long sampled_stride;
  int* num_sampled;
  const long long* drafts;
  long long draft_stride;
  const int* tokens;
  long long token_stride;
  const float* probabilities;
  long long probability_stride;
  const int* counts;
  const float* draft_probabilities;
  long long request_stride, position_stride;
  int draft_vocabulary;
  const float* accept_uniform;
  long long accept_stride;
  const float* sample_uniform;
  int requests, drafted;
};

Kernel kernel{"rejection", "compact_rejection_i64_f32_i64_warps_sm70"};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One row: the tokens that it can yield, and the draft that it judges (-1: none).
struct Row {
  const int* tokens;
  const float* probabilities;
  int count;
  long long draft;
  const float* draft_probabilities;
  int draft_vocabulary;

  double p(long long token) const {
    const int* end = tokens + std::max(count, 0);
    const int* found = std::lower_bound(tokens, end, token);
    return found != end && *found == token ? probabilities[found - tokens] : 0.0f;
  }
  double q(long long token) const {
    if (draft_probabilities == nullptr) return token == draft ? 1 : 0;
    return token < draft_vocabulary ? draft_probabilities[token] : 0.0f;
  }
  double residual(int at) const {
    if (draft < 0) return probabilities[at];
    const double rest = probabilities[at] - q(tokens[at]);
    return rest > 0 ? rest : 0;
  }
};

Row row_of(const Arguments& a, long long b, int i) {
  const long long row = b * (a.drafted + 1) + i;
  const bool judges = i < a.drafted;
  const float* q = a.draft_probabilities;
  return {a.tokens + row * a.token_stride,
          a.probabilities + row * a.probability_stride,
          a.counts[row],
          judges ? a.drafts[b * a.draft_stride + i] : -1,
          q == nullptr || !judges ? nullptr : q + b * a.request_stride + i * a.position_stride,
          a.draft_vocabulary};
}

// The first place whose running sum exceeds `limit`, or -1; `sum` becomes the sum so far.
template <typename Residual>
int run(int count, double limit, const Residual& residual, double& sum) {
  sum = 0;
  for (int at = 0; at < count; ++at) {
    sum += residual(at);
    if (sum > limit) return at;
  }
  return -1;
}

long long token_of(const Row& row, double uniform) {
  if (row.count <= 0) return row.count;
  double total = 0, ignored = 0;
  const auto residual = [&](int at) { return row.residual(at); };
  const auto whole = [&](int at) { return static_cast<double>(row.probabilities[at]); };
  run(row.count, kInfinity, residual, total);
  if (total > 0) return row.tokens[std::max(run(row.count, uniform * total, residual, ignored), 0)];
  run(row.count, kInfinity, whole, total);
  return row.tokens[std::max(run(row.count, uniform * total, whole, ignored), 0)];
}

void on_cpu(const Arguments& a) {
  parallel(a.requests, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      long long* sampled = a.sampled + b * a.sampled_stride;
      int passed = 0;
      for (; passed < a.drafted; ++passed) {
        const Row row = row_of(a, b, passed);
        const double uniform = a.accept_uniform[b * a.accept_stride + passed];
        if (row.draft < 0 || !(row.p(row.draft) > uniform * row.q(row.draft))) break;
        sampled[passed] = row.draft;
      }
      sampled[passed] = token_of(row_of(a, b, passed), a.sample_uniform[b]);
      std::fill(sampled + passed + 1, sampled + a.drafted + 1, -1);
      a.num_sampled[b] = passed + 1;
    }
  });
}

}  // namespace

void compact_rejection(
    const Tensor& sampled_, const Tensor& num_sampled_, const Tensor& draft_tokens_, const Tensor& tokens_,
    const Tensor& probabilities_, const Tensor& counts_, const Tensor& accept_uniform_, const Tensor& sample_uniform_,
    const std::optional<Tensor>& draft_probabilities_) {
  const Checker check("compact_rejection");
  const View sampled = check.view(sampled_, "sampled"), num_sampled = check.view(num_sampled_, "num_sampled");
  const View drafts = check.view(draft_tokens_, "draft_tokens"), tokens = check.view(tokens_, "tokens");
  const View probabilities = check.view(probabilities_, "probabilities"), counts = check.view(counts_, "counts");
  const View accept = check.view(accept_uniform_, "accept_uniform"), sample = check.view(sample_uniform_, "sample_uniform");
  const std::optional<View> q = check.view(draft_probabilities_, "draft_probabilities");
  check.dim(drafts, 2);
  const std::int64_t requests = check.small(drafts.size(0), "the number of requests");
  const std::int64_t drafted = check.small(drafts.size(1), "the number of drafts");
  const std::int64_t rows = check.small(requests * (drafted + 1), "the number of rows");
  check.shaped(drafts, ScalarType::Long, {requests, drafted}, drafts);
  check.shaped(sampled, ScalarType::Long, {requests, drafted + 1}, drafts);
  check.shaped(num_sampled, ScalarType::Int, {requests}, drafts);
  check.dim(tokens, 2);
  check.shaped(tokens, ScalarType::Int, {rows, tokens.size(1)}, drafts);
  check.shaped(probabilities, ScalarType::Float, {rows, tokens.size(1)}, drafts);
  check.shaped(counts, ScalarType::Int, {rows}, drafts);
  check.shaped(accept, ScalarType::Float, {requests, drafted}, drafts);
  check.shaped(sample, ScalarType::Float, {requests}, drafts);
  Arguments a{};
  a.sampled = sampled.as<long long>(), a.sampled_stride = sampled.stride(0), a.num_sampled = num_sampled.as<int>();
  a.drafts = drafts.as<const long long>(), a.draft_stride = drafts.stride(0);
  a.tokens = tokens.as<const int>(), a.token_stride = tokens.stride(0);
  a.probabilities = probabilities.as<const float>(), a.probability_stride = probabilities.stride(0);
  a.counts = counts.as<const int>();
  a.accept_uniform = accept.as<const float>(), a.accept_stride = accept.stride(0);
  a.sample_uniform = sample.as<const float>();
  a.requests = static_cast<int>(requests), a.drafted = static_cast<int>(drafted);
  if (q.has_value()) {
    check.dim(*q, 3);
    check.shaped(*q, ScalarType::Float, {requests, drafted, q->size(2)}, drafts);
    a.draft_probabilities = q->as<const float>(), a.request_stride = q->stride(0), a.position_stride = q->stride(1);
    a.draft_vocabulary = check.small(q->size(2), "the draft's vocabulary");
  }
  if (requests == 0) return;
  if (drafts.device < 0) return on_cpu(a);
  Shape shape;
  shape.block_x = 32;
  shape.grid_x = static_cast<unsigned>(requests);
  launch(kernel, drafts.device, shape, a);
}

}  // namespace volta
