// Repetition penalties, in place:  x = x > 0 ? round(x / p) : round(x * p)  where either mask is set.
//
// Contract   logits[row, word] with unit stride inside a row, any stride between rows; masks dense, one byte a word, set if
//            not 0; one penalty a row, of the logits' type. NaN stays NaN.
// Upstream   vLLM's csrc sampler kernel divides, as here; apply_repetition_penalties_torch in _custom_ops.py of 0.32.0
//            multiplies by a rounded reciprocal, which may differ in the last bit.
// Error      none: fp32 quotients and products, correctly rounded, then rounded to the logits' type (kernels/reference/
//            penalties.py).
// Layout     threadIdx.y: row in the block; blockIdx.y: part of the row; threadIdx.x: item, a pack of N words.
// Resources  no shared memory, at most 64 registers, no spills.
// Method     masks first: a pack of logits is moved only where a mask is set, so most of the traffic is the masks.

#include "common.cuh"

namespace volta {

template <typename T>
struct PenaltyArguments {
  T* logits;
  int64 logit_stride;
  const uint8* prompt_mask;
  const uint8* output_mask;
  const T* penalties;
  int64 rows;
  int64 words;
};

template <typename T, int N>
__device__ __forceinline__ void penalise(const PenaltyArguments<T>& a) {
  const int64 row = token_of_thread();
  if (row >= a.rows) return;
  T* logits = a.logits + row * a.logit_stride;
  const uint8* prompt = a.prompt_mask + row * a.words;
  const uint8* output = a.output_mask + row * a.words;
  const float penalty = to_float(a.penalties[row]);
  const int64 threads = static_cast<int64>(gridDim.y) * blockDim.x;
  for (int64 item = static_cast<int64>(blockIdx.y) * blockDim.x + threadIdx.x; item * N < a.words; item += threads) {
    const int64 at = item * N;
    const Pack<uint8, N> in_prompt = load<uint8, N>(prompt + at), in_output = load<uint8, N>(output + at);
    bool any = false;
#pragma unroll
    for (int i = 0; i < N; ++i) any = any || (in_prompt.at[i] | in_output.at[i]) != 0;
    if (!any) continue;
    Pack<T, N> x = load<T, N>(logits + at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float logit = to_float(x.at[i]);
      if ((in_prompt.at[i] | in_output.at[i]) != 0)
        x.at[i] = from_float<T>(logit > 0.0f ? logit / penalty : logit * penalty);
    }
    store<T, N>(logits + at, x);
  }
}

}  // namespace volta

#define VOLTA_PENALTIES(type, T, N)                                                                          \
  extern "C" __global__ void apply_repetition_penalties_##type##_##type##_words##N##_sm70(                  \
      volta::PenaltyArguments<T> a) {                                                                        \
    volta::penalise<T, N>(a);                                                                                \
  }

VOLTA_PENALTIES(f16, __half, 8)
VOLTA_PENALTIES(f16, __half, 1)
VOLTA_PENALTIES(f32, float, 4)
VOLTA_PENALTIES(f32, float, 1)
