// Scores of experts, and the best of them in order: what the routing kernels share.
//
// A choice and its expert make one 64-bit key, larger is better. The key after `last` is the largest one below it, so nothing
// has to be crossed out, and any number of experts can follow one another.
#pragma once

#include "common.cuh"

namespace volta {

constexpr int kThreads = 128;  // of a block
constexpr int kHeld = 16;      // choices that a lane keeps; it computes any others again

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

__device__ __forceinline__ float choice_of_key(uint64 key) {
  const unsigned rank = static_cast<unsigned>(key >> 32);
  return __uint_as_float((rank >> 31) != 0 ? rank ^ 0x80000000u : ~rank);  // rank 0 is NaN
}

__device__ __forceinline__ int expert_of_key(uint64 key) { return static_cast<int>(~static_cast<unsigned>(key)); }

// One row of `experts` logits by the `width` lanes of a group; all of them call everything. A row that is not there has no
// experts, and its lanes only stay for the shuffles. `held` is the lane's part of kHeld * kThreads numbers.
template <typename T, typename Score, typename Bias>
class Row {
 public:
  __device__ __forceinline__ Row(
      const T* x, const Bias& bias, int experts, int lane, int width, float* held, const Score& score)
      : x_(x), bias_(bias), experts_(experts), lane_(lane), width_(width), held_(held), score_(score) {
    for (int h = 0; h < kHeld && lane + h * width < experts; ++h) held_[h * kThreads] = choice(lane + h * width);
  }

  __device__ __forceinline__ float score(int expert) const { return score_(to_float(x_[expert])); }

  // The largest key below `last` of the experts that are allowed, 0 if there is none; every lane gets it.
  template <typename Allowed>
  __device__ __forceinline__ uint64 next(uint64 last, Allowed allowed) const {
    uint64 best = 0;
    for (int h = 0; lane_ + h * width_ < experts_; ++h) {
      const int e = lane_ + h * width_;
      if (!allowed(e)) continue;
      const uint64 key = choice_key(h < kHeld ? held_[h * kThreads] : choice(e), e);
      if (key < last && key > best) best = key;
    }
    return group_max(best, width_);
  }

 private:
  __device__ __forceinline__ float choice(int expert) const { return score(expert) + bias_(expert); }

  const T* x_;
  Bias bias_;
  int experts_, lane_, width_;
  float* held_;  // number h is kThreads * h further on
  Score score_;
};

// No bias, or one number an expert.
struct FloatBias {
  const float* at;
  __device__ __forceinline__ float operator()(int expert) const { return at == nullptr ? 0.0f : at[expert]; }
};

}  // namespace volta
