// The two 8-bit float formats of the KV cache, in integer arithmetic, shared by host and device code.
//
//   E4M3 (finite-only): 1 sign, 4 exponent (bias 7), 3 mantissa bits; largest 448; 0x7f and 0xff are NaN; no infinity.
//   E5M2: 1 sign, 5 exponent (bias 15), 2 mantissa bits; largest finite 57344; the top byte of an IEEE half.
//
// encode: round to nearest, ties to even; magnitudes above the largest finite value, infinity too, become that value
//         (saturating); NaN becomes sign | 0x7f; the sign of zero is kept. Exact for every float.
// decode: exact for all 256 codes; E5M2 infinities (never written by encode) stay infinities.
//
// Method: a number is lifted by the power of two that brings the format's smallest normal number to 2, whose exponent field
// is 128. With 2^e the lifted magnitude's power of two, or 2 if that is larger, adding 2^(e + 23 - mantissa bits) rounds it to
// the format's steps at e: the sum's own last bits count the steps. The exponent's share of the code is its field, shifted;
// 128 leaves nothing of it in the low byte, so nothing needs to be subtracted, and normal and subnormal results are one case.
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

// The magnitude of x, at most `largest`, which NaN becomes too.
VOLTA_HD float limited(float x, float largest) {
#if defined(__CUDACC__)
  return fminf(fabsf(x), largest);
#else
  const float magnitude = float_of(bits_of(x) & 0x7fffffffu);
  return magnitude < largest ? magnitude : largest;
#endif
}

// A format by its numbers: kept bits, exponent bias, and the largest finite number.
template <int kMantissaBits, int kExponentBias, int kLargest>
struct Fp8 {
  static constexpr float kLift = static_cast<float>(1 << kExponentBias);

  static VOLTA_HD unsigned char encode(float x) {
    const unsigned bits = bits_of(x);
    const unsigned sign = bits >> 24 & 0x80u;
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned char>(sign | 0x7fu);
    return static_cast<unsigned char>(sign | (encode_lifted(x * kLift) & 0x7fu));
  }

  // The code of |lifted| / kLift in the low byte; the other bytes mean nothing. Not for NaN.
  static VOLTA_HD unsigned encode_lifted(float lifted) {
    constexpr int kDropped = 23 - kMantissaBits;
    const float x = limited(lifted, kLargest * kLift);
    unsigned power = bits_of(x) & 0x7f800000u;
    power = power > 128u << 23 ? power : 128u << 23;
    const float steps = float_of(power) * static_cast<float>(1 << kDropped) + x;  // the product is exact
    return bits_of(steps) + (power >> kDropped);
  }

  // Bits of the float that a finite code's magnitude stands for. Needs no subnormal arithmetic.
  static VOLTA_HD unsigned widen(unsigned magnitude) {
    constexpr unsigned kNormalBits = (128u - kExponentBias) << 23;  // the smallest normal number
    const unsigned normal = (magnitude << (23 - kMantissaBits)) + ((127u - kExponentBias) << 23);
    constexpr unsigned kRounder = kNormalBits + (static_cast<unsigned>(23 - kMantissaBits) << 23);
    const unsigned subnormal = bits_of(float_of(kRounder + magnitude) - float_of(kRounder));
    return magnitude >> kMantissaBits != 0 ? normal : subnormal;
  }
};

struct E4M3 : Fp8<3, 7, 448> {
  static VOLTA_HD float decode(unsigned char code) {
    const unsigned magnitude = code & 0x7fu;
    const unsigned sign = (code & 0x80u) << 24;
    if (magnitude == 0x7fu) return float_of(sign | 0x7fc00000u);
    return float_of(sign | widen(magnitude));
  }
};

struct E5M2 : Fp8<2, 15, 57344> {
  static VOLTA_HD float decode(unsigned char code) {
    const unsigned magnitude = code & 0x7fu;
    const unsigned sign = (code & 0x80u) << 24;
    if (magnitude >= 0x7cu) return float_of(sign | (magnitude == 0x7cu ? 0x7f800000u : 0x7fc00000u));
    return float_of(sign | widen(magnitude));
  }
};

}  // namespace volta
