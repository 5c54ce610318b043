// Speculative sampling (Leviathan et al. 2023) on the tokens that each row can yield, for batches in which every request has
// the same number of drafts. What the dense form does with the whole vocabulary, token for token.
//
// Request b has N drafts and the rows b (N + 1) + i: row i < N judges draft i, row N is for the token after the last draft.
//
//   draft x of row i passes     p(x) > accept_uniform[b, i] * q(x)
//   residual r of the first row that fails      max(p - q, 0);      of row N      p;      p as well where r is all zero
//   its token       the first one, by ascending id, whose running sum of r exceeds sample_uniform[b] * sum of r
//
// p: probabilities of topk_topp_support, 0 for tokens that are not among them. q: draft_probabilities, or 1 for the draft and 0
// for the others without them. A draft below 0 is a placeholder: it fails, and r = p. Greedy rows need nothing of their own:
// they have one token with p = 1. N = 0 is plain sampling.
//
// Contract   uniforms in [0, 1). sampled[b] becomes the drafts that passed, one token more, then -1; num_sampled[b] their
//            number. A row without any token (nothing but NaN and -infinity) yields 0, as vLLM does; one whose support was not
//            made (count -1) yields -1.
// Error      none: sums and products are float64 of fp32 numbers, in one order; equal on CPU, GPU and to the dense oracle
//            (kernels/reference/rejection.py), since zeros of the other tokens change no sum.
// Layout     one warp a request: a lane for each draft, then lanes for 32 tokens at a time.
// Resources  no shared memory, at most 64 registers, no spills.
// Method     tokens are ascending, so a draft is found by bisection; sums are the same sequence in every lane.

#include "common.cuh"

namespace volta {

struct RejectionArguments {
  int64* sampled;
  int64 sampled_stride;
  int* num_sampled;
  const int64* drafts;
  int64 draft_stride;
  const int* tokens;
  int64 token_stride;
  const float* probabilities;
  int64 probability_stride;
  const int* counts;
  const float* draft_probabilities;  // or null
  int64 request_stride, position_stride;
  int draft_vocabulary;
  const float* accept_uniform;
  int64 accept_stride;
  const float* sample_uniform;
  int requests, drafted;
};

// p of a token in a row.
__device__ __forceinline__ float probability_of(const RejectionArguments& a, int64 row, int64 token) {
  const int* tokens = a.tokens + row * a.token_stride;
  int low = 0, high = max(a.counts[row], 0);
  while (low < high) {
    const int middle = (low + high) / 2;
    if (tokens[middle] < token)
      low = middle + 1;
    else
      high = middle;
  }
  return low < a.counts[row] && tokens[low] == token ? a.probabilities[row * a.probability_stride + low] : 0.0f;
}

// q of a token for draft i of request b, which was `draft`.
__device__ __forceinline__ float draft_probability(const RejectionArguments& a, int b, int i, int64 draft, int64 token) {
  if (a.draft_probabilities == nullptr) return token == draft ? 1.0f : 0.0f;
  if (token >= a.draft_vocabulary) return 0.0f;
  return a.draft_probabilities[b * a.request_stride + i * a.position_stride + token];
}

// How many drafts pass before the first that fails.
__device__ __forceinline__ int accepted(const RejectionArguments& a, int b) {
  for (int first = 0; first < a.drafted; first += 32) {
    const int i = first + threadIdx.x;
    bool fails = false;
    if (i < a.drafted) {
      const int64 draft = a.drafts[b * a.draft_stride + i];
      fails = true;
      if (draft >= 0) {
        const double p = probability_of(a, b * static_cast<int64>(a.drafted + 1) + i, draft);
        const double q = draft_probability(a, b, i, draft, draft);
        fails = !(p > __dmul_rn(a.accept_uniform[b * a.accept_stride + i], q));
      }
    }
    const unsigned failing = __ballot_sync(0xffffffffu, fails);
    if (failing != 0) return first + __ffs(failing) - 1;
  }
  return a.drafted;
}

// Runs through the row's tokens in order, adding up p, or the residual; stops at the first sum above `limit`, and gives that
// token's place, or -1. The sum so far is left in `sum`. The whole warp does the same.
template <typename Residual>
__device__ __forceinline__ int run(int count, double limit, const Residual& residual, double& sum) {
  sum = 0.0;
  for (int first = 0; first < count; first += 32) {
    const int mine = first + static_cast<int>(threadIdx.x);
    const double own = mine < count ? residual(mine) : 0.0;
    for (int lane = 0; lane < 32; ++lane) {
      sum = __dadd_rn(sum, __shfl_sync(0xffffffffu, own, lane));
      if (sum > limit) return first + lane;
    }
  }
  return -1;
}

__device__ __forceinline__ int64 token_of(const RejectionArguments& a, int b, int i) {
  const int64 row = b * static_cast<int64>(a.drafted + 1) + i;
  const int count = a.counts[row];
  if (count <= 0) return count;  // 0: token 0; -1: no support was made
  const int* tokens = a.tokens + row * a.token_stride;
  const float* p = a.probabilities + row * a.probability_stride;
  const int64 draft = i < a.drafted ? a.drafts[b * a.draft_stride + i] : -1;
  const auto whole = [&](int at) { return static_cast<double>(p[at]); };
  const auto residual = [&](int at) {
    if (draft < 0) return whole(at);
    const double rest = __dadd_rn(p[at], -static_cast<double>(draft_probability(a, b, i, draft, tokens[at])));
    return rest > 0.0 ? rest : 0.0;
  };
  double total, ignored;
  run(count, VOLTA_INFINITY, residual, total);
  const double uniform = a.sample_uniform[b];
  if (total > 0.0) return tokens[max(run(count, __dmul_rn(uniform, total), residual, ignored), 0)];
  run(count, VOLTA_INFINITY, whole, total);
  return tokens[max(run(count, __dmul_rn(uniform, total), whole, ignored), 0)];
}

}  // namespace volta

extern "C" __global__ void compact_rejection_i64_f32_i64_warps_sm70(volta::RejectionArguments a) {
  const int b = blockIdx.x;
  const int passed = volta::accepted(a, b);
  const volta::int64 token = volta::token_of(a, b, passed);
  volta::int64* sampled = a.sampled + b * a.sampled_stride;
  for (int i = threadIdx.x; i <= a.drafted; i += 32)
    sampled[i] = i < passed ? a.drafts[b * a.draft_stride + i] : i == passed ? token : -1;
  if (threadIdx.x == 0) a.num_sampled[b] = passed + 1;
}
