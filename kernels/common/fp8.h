// The two 8-bit float formats of the KV cache, in integer arithmetic, shared by host and device code.
//
//   E4M3 (finite-only): 1 sign, 4 exponent (bias 7), 3 mantissa bits; largest 448; 0x7f and 0xff are NaN; no infinity.
//   E5M2: 1 sign, 5 exponent (bias 15), 2 mantissa bits; largest finite 57344; the top byte of an IEEE half.
//
// encode: round to nearest, ties to even; magnitudes above the largest finite value, infinity too, become that value
//         (saturating); NaN becomes sign | 0x7f; the sign of zero is kept. Exact for every float.
// decode: exact for all 256 codes; E5M2 infinities (never written by encode) stay infinities.
//
// Method: with 2^e the magnitude's power of two, or the smallest normal one if that is larger, adding 2^(e + 23 - mantissa
// bits) rounds the magnitude to the format's steps at e: the sum's own last bits count the steps. The exponent's share of
// the code is added to them. Normal and subnormal results need no distinction and no subnormal arithmetic.
#pragma once

#if defined(__CUDACC__)
#define VOLTA_HD __device__ __forceinline__
#else
#include <cstdint>
#include <cstring>
#define VOLTA_HD inline
#endif

namespace volta {

VOLTA_HD unsigned bits_of(float x) {
#if defined(__CUDACC__)
  return __float_as_uint(x);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

VOLTA_HD float float_of(unsigned bits) {
#if defined(__CUDACC__)
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

// A format by its numbers: kept bits, exponent bias, and the bits of the largest finite and the smallest normal float.
template <int kMantissaBits, int kExponentBias, unsigned kLargestBits, unsigned kNormalBits>
struct Fp8 {
  static VOLTA_HD unsigned char encode(float x) {
    const unsigned bits = bits_of(x);
    const unsigned sign = bits >> 24 & 0x80u;
    const unsigned magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<unsigned char>(sign | 0x7fu);
    return static_cast<unsigned char>(sign | encode_magnitude(float_of(magnitude)));
  }

  // The code of a number that is not negative and not NaN.
  static VOLTA_HD unsigned encode_magnitude(float x) {
    constexpr int kDropped = 23 - kMantissaBits;
    x = x < float_of(kLargestBits) ? x : float_of(kLargestBits);
    unsigned power = bits_of(x) & 0x7f800000u;
    power = power > kNormalBits ? power : kNormalBits;
    const unsigned rounder = power + (static_cast<unsigned>(kDropped) << 23);
    const unsigned steps = bits_of(x + float_of(rounder)) - rounder;
    return steps + ((power - kNormalBits) >> kDropped);
  }

  // Bits of the float that a finite code's magnitude stands for. Needs no subnormal arithmetic.
  static VOLTA_HD unsigned widen(unsigned magnitude) {
    const unsigned normal = (magnitude << (23 - kMantissaBits)) + ((127u - kExponentBias) << 23);
    constexpr unsigned kRounder = kNormalBits + (static_cast<unsigned>(23 - kMantissaBits) << 23);
    const unsigned subnormal = bits_of(float_of(kRounder + magnitude) - float_of(kRounder));
    return magnitude >> kMantissaBits != 0 ? normal : subnormal;
  }
};

struct E4M3 : Fp8<3, 7, 0x43e00000u, 0x3c800000u> {  // 448, 2^-6
  static VOLTA_HD float decode(unsigned char code) {
    const unsigned magnitude = code & 0x7fu;
    const unsigned sign = (code & 0x80u) << 24;
    if (magnitude == 0x7fu) return float_of(sign | 0x7fc00000u);
    return float_of(sign | widen(magnitude));
  }
};

struct E5M2 : Fp8<2, 15, 0x47600000u, 0x38800000u> {  // 57344, 2^-14
  static VOLTA_HD float decode(unsigned char code) {
    const unsigned magnitude = code & 0x7fu;
    const unsigned sign = (code & 0x80u) << 24;
    if (magnitude >= 0x7cu) return float_of(sign | (magnitude == 0x7cu ? 0x7f800000u : 0x7fc00000u));
    return float_of(sign | widen(magnitude));
  }
};

}  // namespace volta
