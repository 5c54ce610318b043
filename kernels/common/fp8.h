// The two 8-bit float formats of the KV cache, in integer arithmetic, shared by host and device code.
//
//   E4M3 (finite-only): 1 sign, 4 exponent (bias 7), 3 mantissa bits; largest 448; 0x7f and 0xff are NaN; no infinity.
//   E5M2: 1 sign, 5 exponent (bias 15), 2 mantissa bits; largest finite 57344; the top byte of an IEEE half.
//
// encode: round to nearest, ties to even; magnitudes above the largest finite value, infinity too, become that value
//         (saturating); NaN becomes sign | 0x7f; the sign of zero is kept. Exact for every float.
// decode: exact for all 256 codes; E5M2 infinities (never written by encode) stay infinities.
//
// Method: a normal result is the float's own bits rounded to the format's mantissa width by adding half an ulp minus one
// plus the last kept bit. A subnormal result is read from the mantissa of |x| + 2^k, where the sum's ulp is the format's
// smallest step, so that the addition does the rounding.
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

// A format by its numbers. kMantissa: kept bits; kBias: exponent bias; kLargest: bits of the largest finite float;
// kNormal: bits of the smallest normal float; kMagic: bits of the power of two whose ulp is the smallest step.
template <int kMantissaBits, int kExponentBias, unsigned kLargestBits, unsigned kNormalBits, unsigned kMagicBits>
struct Fp8 {
  static VOLTA_HD unsigned char encode(float x) {
    const unsigned bits = bits_of(x);
    const unsigned sign = bits >> 24 & 0x80u;
    unsigned magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<unsigned char>(sign | 0x7fu);
    magnitude = magnitude < kLargestBits ? magnitude : kLargestBits;
    constexpr int kDropped = 23 - kMantissaBits;
    constexpr unsigned kRebias = (127u - kExponentBias) << kMantissaBits;
    const unsigned rounded = magnitude + ((1u << (kDropped - 1)) - 1u) + (magnitude >> kDropped & 1u);
    const unsigned normal = (rounded >> kDropped) - kRebias;
    const unsigned subnormal = bits_of(float_of(magnitude) + float_of(kMagicBits)) - kMagicBits;
    return static_cast<unsigned char>(sign | (magnitude >= kNormalBits ? normal : subnormal));
  }

  // Bits of the float that a finite code's magnitude stands for. Needs no subnormal arithmetic.
  static VOLTA_HD unsigned widen(unsigned magnitude) {
    const unsigned normal = (magnitude << (23 - kMantissaBits)) + ((127u - kExponentBias) << 23);
    const unsigned subnormal = bits_of(float_of(kMagicBits + magnitude) - float_of(kMagicBits));
    return magnitude >> kMantissaBits != 0 ? normal : subnormal;
  }
};

struct E4M3 : Fp8<3, 7, 0x43e00000u, 0x3c800000u, 0x46800000u> {  // 448, 2^-6, 2^14
  static VOLTA_HD float decode(unsigned char code) {
    const unsigned magnitude = code & 0x7fu;
    const unsigned sign = (code & 0x80u) << 24;
    if (magnitude == 0x7fu) return float_of(sign | 0x7fc00000u);
    return float_of(sign | widen(magnitude));
  }
};

struct E5M2 : Fp8<2, 15, 0x47600000u, 0x38800000u, 0x43000000u> {  // 57344, 2^-14, 2^7
  static VOLTA_HD float decode(unsigned char code) {
    const unsigned magnitude = code & 0x7fu;
    const unsigned sign = (code & 0x80u) << 24;
    if (magnitude >= 0x7cu) return float_of(sign | (magnitude == 0x7cu ? 0x7f800000u : 0x7fc00000u));
    return float_of(sign | widen(magnitude));
  }
};

}  // namespace volta
