// Rotary position embedding, in place on query and key.
//
//   x' = round(x * cos - y * sin)    y' = round(y * cos + x * sin)
//
// NeoX pairs (x, y) = (v[i], v[i + rot / 2]); GPT-J pairs (v[2 i], v[2 i + 1]); cos = cache[position][i],
// sin = cache[position][rot / 2 + i]; the rotated elements of a head start at `offset`; `inverse` turns sin's sign.
//
// Contract   unit stride inside a head, any strides between tokens and heads. Positions outside the cache give NaN: loud,
//            and no read outside the cache.
// Error      against the float64 oracle (kernels/reference/rotary.py): with fp16 data and cache the products are exact in
//            fp32, so 2^-23 (|x cos| + |y sin|) before the rounding to fp16; with an fp32 cache 2^-22 (|x cos| + |y sin|).
// Layout     threadIdx.y: token in the block; threadIdx.x: item, a pack of N pairs of one head; query heads, then key heads.
// Resources  no shared memory, at most 40 registers, no spills.

#include "common.cuh"

namespace volta {

template <typename T>
struct RotarySide {
  T* data;
  int64 token_stride;
  int64 head_stride;
  int heads;
};

template <typename T, typename C>
struct RotaryArguments {
  const int64* positions;
  RotarySide<T> query;
  RotarySide<T> key;
  const C* cache;
  int64 cache_stride;
  int64 max_position;
  int64 tokens;
  int half_rotated;  // rot / 2
  float sign;        // -1 for the inverse rotation
};

__device__ __forceinline__ void rotate(float& x, float& y, float cosine, float sine) {
  const float first = fmaf(x, cosine, -(y * sine));
  y = fmaf(y, cosine, x * sine);
  x = first;
}

template <typename T, typename C, int N, bool kNeox>
__device__ __forceinline__ void rotate_pack(
    T* head, const C* cosines, const C* sines, int at, int half_rotated, float sign, bool valid) {
  constexpr int kStep = kNeox ? 1 : 2;
  T* first = head + at * kStep;
  T* second = kNeox ? first + half_rotated : first + 1;
  Pack<T, N> x = load<T, N>(first), y = load<T, N>(second);
  Pack<C, N> cosine{}, sine{};
  if (valid) {
    cosine = load<C, N>(cosines + at);
    sine = load<C, N>(sines + at);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    float a = to_float(x.at[i]), b = to_float(y.at[i]);
    rotate(a, b, to_float(cosine.at[i]), sign * to_float(sine.at[i]));
    x.at[i] = from_float<T>(valid ? a : VOLTA_NAN);
    y.at[i] = from_float<T>(valid ? b : VOLTA_NAN);
  }
  store<T, N>(first, x);
  store<T, N>(second, y);
}

template <typename T, typename C, int N, bool kNeox>
__device__ __forceinline__ void rotary(const RotaryArguments<T, C>& a) {
  const int64 token = token_of_thread();
  if (token >= a.tokens) return;
  const int64 position = a.positions[token];
  const bool valid = position >= 0 && position < a.max_position;
  const C* cosines = a.cache + (valid ? position : 0) * a.cache_stride;
  const int packs = a.half_rotated / N;
  const int items = (a.query.heads + a.key.heads) * packs;
  for (int item = threadIdx.x; item < items; item += blockDim.x) {
    const int head = item / packs, at = (item - head * packs) * N;
    const bool is_key = head >= a.query.heads;
    const RotarySide<T>& side = is_key ? a.key : a.query;
    T* data = side.data + token * side.token_stride + (is_key ? head - a.query.heads : head) * side.head_stride;
    rotate_pack<T, C, N, kNeox>(data, cosines, cosines + a.half_rotated, at, a.half_rotated, a.sign, valid);
  }
}

}  // namespace volta

#define VOLTA_ROTARY(types, T, C, N)                                                                                  \
  extern "C" __global__ void rotary_embedding_##types##_neox##N##_sm70(volta::RotaryArguments<T, C> a) {              \
    volta::rotary<T, C, N, true>(a);                                                                                  \
  }
#define VOLTA_ROTARY_GPTJ(types, T, C)                                                                                \
  extern "C" __global__ void rotary_embedding_##types##_gptj1_sm70(volta::RotaryArguments<T, C> a) {                  \
    volta::rotary<T, C, 1, false>(a);                                                                                 \
  }

VOLTA_ROTARY(f16_f16_f16, __half, __half, 8)
VOLTA_ROTARY(f16_f16_f16, __half, __half, 1)
VOLTA_ROTARY_GPTJ(f16_f16_f16, __half, __half)
VOLTA_ROTARY(f16_f32_f16, __half, float, 4)
VOLTA_ROTARY(f16_f32_f16, __half, float, 1)
VOLTA_ROTARY_GPTJ(f16_f32_f16, __half, float)
VOLTA_ROTARY(f32_f32_f32, float, float, 4)
VOLTA_ROTARY(f32_f32_f32, float, float, 1)
VOLTA_ROTARY_GPTJ(f32_f32_f32, float, float)
