// Order of experts, as kernels/cuda/routing.cuh has it, for the CPU forms of the routing operators.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace volta {

// Moves the `k` best of `experts` to the front, best first: by choice, then by the lower expert; NaN last.
template <typename Choice>
void best_first(std::vector<int>& experts, int k, Choice choice) {
  std::partial_sort(experts.begin(), experts.begin() + k, experts.end(), [&](int left, int right) {
    const float x = choice(left), y = choice(right);
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? left < right : std::isnan(y);
    return x != y ? x > y : left < right;
  });
}

inline float finite_or_zero(float x) { return std::isfinite(x) ? x : 0.0f; }

}  // namespace volta
