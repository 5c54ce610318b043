// The exponential of numbers that are not positive, in float64, with the same bits on CPU and GPU.
#pragma once

#if !defined(__CUDACC__)
#include <cmath>
#endif

namespace volta {

#if defined(__CUDACC__)
#define VOLTA_BOTH __device__ __forceinline__
VOLTA_BOTH double times(double x, double y) { return __dmul_rn(x, y); }
VOLTA_BOTH double plus(double x, double y) { return __dadd_rn(x, y); }
VOLTA_BOTH double two_to_the(int n) { return __longlong_as_double(static_cast<long long>(n + 1023) << 52); }
#else
#define VOLTA_BOTH inline
VOLTA_BOTH double times(double x, double y) { return x * y; }  // compiled with -ffp-contract=off
VOLTA_BOTH double plus(double x, double y) { return x + y; }
VOLTA_BOTH double two_to_the(int n) { return std::ldexp(1.0, n); }
#endif

// e^x for x <= 0, within 2^-50 relative; 0 below -700. x = n log 2 + r with |r| < 0.35, then Taylor's series up to r^13
// (the rest is below 2^-56), each operation rounded by itself. log 2 is split so that n times its first part is exact.
VOLTA_BOTH double exponential(double x) {
  if (!(x > -700.0)) return 0.0;
  constexpr double kInteger = 0x1.8p52;  // a sum with it has no fraction
  const double n = plus(plus(times(x, 1.4426950408889634), kInteger), -kInteger);
  const double r = plus(plus(x, times(n, -0x1.62e42feep-1)), times(n, -0x1.a39ef35793c76p-33));
  const double inverse_factorial[14] = {
      1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
      1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
  double sum = inverse_factorial[13];
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (int power = 12; power >= 0; --power) sum = plus(times(sum, r), inverse_factorial[power]);
  return times(sum, two_to_the(static_cast<int>(n)));
}

#undef VOLTA_BOTH

}  // namespace volta
