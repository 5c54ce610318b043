// Division by a number that the host knows: a multiplication and a shift instead of some twenty instructions.
#pragma once

namespace volta {

// Divides 0 <= n < 2^31 by `divisor` > 0. With 2^shift the first power of two that is not below the divisor and
// magic = floor(2^32 (2^shift - divisor) / divisor) + 1, the quotient is (mulhi(n, magic) + n) >> shift
// (Granlund and Montgomery 1994).
struct FastDivide {
  unsigned divisor;
  unsigned magic;
  unsigned shift;

#if defined(__CUDACC__)
  __device__ __forceinline__ unsigned operator()(unsigned n) const { return (__umulhi(n, magic) + n) >> shift; }
#else
  FastDivide() : FastDivide(1) {}
  explicit FastDivide(unsigned by) : divisor(by), magic(0), shift(0) {
    while ((1ull << shift) < by) ++shift;
    magic = static_cast<unsigned>(((1ull << 32) * ((1ull << shift) - by)) / by + 1);
  }
#endif
};

}  // namespace volta
