// Eight halves to eight FP8 codes and back, with as few instructions as an exact result allows.
//
//   encode_pack   codes of x / scale, x / scale being the correctly rounded fp32 quotient (common/fp8.h says how it is encoded)
//   decode_pack   round_to_half(decode(code) * scale)
//
// Method     a division for each element would cost more than its memory traffic on SM70, so the quotient comes from the
//            reciprocal with one correction step (Markstein 1990: correctly rounded when the reciprocal is, and the divisor's
//            mantissa is not all ones), lifted as common/fp8.h wants it.
//            Scales for which that does not hold, and packs with NaN or infinity, are divided and encoded one by one.
#pragma once

#include "../common/fp8.h"
#include "common.cuh"

namespace volta {

// Divides by one number, many times; results are lifted by 2^kLift of the format.
template <typename F>
class Divisor {
 public:
  __device__ __forceinline__ explicit Divisor(float by) : by_(by * (1.0f / F::kLift)), scale_(by) {
    reciprocal_ = 1.0f / by_;
    const unsigned bits = bits_of(by), exponent = bits >> 23;  // a negative number has an exponent of 256 or more here
    fast_ = exponent > 127 - 60 && exponent < 127 + 60 && (bits & 0x7fffffu) != 0x7fffffu;
  }
  // Whether `lifted` gives kLift times the correctly rounded quotient of every finite half.
  __device__ __forceinline__ bool has_fast() const { return fast_; }
  __device__ __forceinline__ float lifted(float x) const {
    const float quotient = x * reciprocal_;
    return fmaf(fmaf(-by_, quotient, x), reciprocal_, quotient);
  }
  __device__ __forceinline__ float exact(float x) const { return x / scale_; }

 private:
  float by_, scale_, reciprocal_;
  bool fast_;
};

__device__ __forceinline__ float2 to_floats(unsigned halves) {
  return __half22float2(*reinterpret_cast<const __half2*>(&halves));
}

// Whether one of eight halves is NaN or infinite: only those give something else than zero when multiplied by zero.
__device__ __forceinline__ bool any_special(const Pack<unsigned, 4>& halves) {
  const __half2* x = reinterpret_cast<const __half2*>(halves.at);
  const __half2 zero = __float2half2_rn(0.0f);
  const __half2 sum = __hfma2(x[0], zero, __hfma2(x[1], zero, __hfma2(x[2], zero, __hmul2(x[3], zero))));
  return (*reinterpret_cast<const unsigned*>(&sum) & 0x7fff7fffu) != 0;
}

// One element after the other, in a loop that stays a loop: rare code is kept small.
template <typename F>
__device__ __forceinline__ Pack<unsigned, 2> encode_slowly(Pack<unsigned, 4> halves, const Divisor<F>& scale) {
  Pack<unsigned, 2> words = {};
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    const unsigned code = F::encode(scale.exact(to_floats(halves.at[0]).x));
    words.at[0] = __funnelshift_r(words.at[0], words.at[1], 8);
    words.at[1] = words.at[1] >> 8 | code << 24;
    halves.at[0] = __funnelshift_r(halves.at[0], halves.at[1], 16);
    halves.at[1] = __funnelshift_r(halves.at[1], halves.at[2], 16);
    halves.at[2] = __funnelshift_r(halves.at[2], halves.at[3], 16);
    halves.at[3] >>= 16;
  }
  return words;
}

template <typename F>
__device__ __forceinline__ Pack<unsigned, 2> encode_pack(const Pack<unsigned, 4>& halves, const Divisor<F>& scale) {
  if (any_special(halves) || !scale.has_fast()) return encode_slowly(halves, scale);
  Pack<unsigned, 2> words;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 low = to_floats(halves.at[2 * i]), high = to_floats(halves.at[2 * i + 1]);
    const unsigned first = __byte_perm(F::encode_lifted(scale.lifted(low.x)), F::encode_lifted(scale.lifted(low.y)), 0x0040);
    const unsigned last = __byte_perm(F::encode_lifted(scale.lifted(high.x)), F::encode_lifted(scale.lifted(high.y)), 0x0040);
    const unsigned signs = __byte_perm(halves.at[2 * i], halves.at[2 * i + 1], 0x7531) & 0x80808080u;
    words.at[i] = __byte_perm(first, last, 0x5410) | signs;
  }
  return words;
}

// Halves that two codes (bytes 1 and 3 of a word) stand for, up to a power of two: E5M2 is the top of a half; E4M3 fits a
// half's exponent field with another bias. Not for E4M3's NaN.
template <typename F>
struct Expand;
template <>
struct Expand<E5M2> {
  static constexpr float kFactor = 1.0f;
  static __device__ __forceinline__ unsigned halves(unsigned codes) { return codes; }
  static __device__ __forceinline__ bool special(unsigned) { return false; }
};
template <>
struct Expand<E4M3> {
  static constexpr float kFactor = 256.0f;
  static __device__ __forceinline__ unsigned halves(unsigned codes) {
    return (codes & 0x80008000u) | ((codes & 0x7f007f00u) >> 1);
  }
  static __device__ __forceinline__ bool special(unsigned four_codes) {
    return (((four_codes & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u) != 0;
  }
};

template <typename F>
__device__ __forceinline__ Pack<unsigned, 4> decode_slowly(Pack<unsigned, 2> words, float scale) {
  Pack<unsigned, 4> halves = {};
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    const __half x = from_float<__half>(F::decode(static_cast<uint8>(words.at[0])) * scale);
    halves.at[0] = __funnelshift_r(halves.at[0], halves.at[1], 16);
    halves.at[1] = __funnelshift_r(halves.at[1], halves.at[2], 16);
    halves.at[2] = __funnelshift_r(halves.at[2], halves.at[3], 16);
    halves.at[3] = halves.at[3] >> 16 | static_cast<unsigned>(__half_as_ushort(x)) << 16;
    words.at[0] = __funnelshift_r(words.at[0], words.at[1], 8);
    words.at[1] >>= 8;
  }
  return halves;
}

template <typename F>
__device__ __forceinline__ Pack<unsigned, 4> decode_pack(const Pack<unsigned, 2>& words, float scale) {
  const float factor = scale * Expand<F>::kFactor;  // exact unless it overflows, which only a scale of 2^120 does
  if (Expand<F>::special(words.at[0]) || Expand<F>::special(words.at[1])) return decode_slowly<F>(words, scale);
  Pack<unsigned, 4> halves;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned two = __byte_perm(words.at[i / 2], 0, i % 2 == 0 ? 0x1404 : 0x3424);
    const float2 values = to_floats(Expand<F>::halves(two));
    const __half2 x = __floats2half2_rn(values.x * factor, values.y * factor);
    halves.at[i] = *reinterpret_cast<const unsigned*>(&x);
  }
  return halves;
}

}  // namespace volta
