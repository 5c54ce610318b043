// Paged KV cache: writing new tokens, and gathering sequences back to dense fp16.
//
//   write:   stored = encode(x / scale)         gather:   x = round_to_half(decode(stored) * scale)
//
// x / scale is the correctly rounded fp32 quotient; encode rounds it to nearest even, saturates, and keeps NaN
// (common/fp8.h). Caches in float16 hold x itself and ignore the scale.
//
// Contract   cache[block, position, head, element] with unit element stride and any other strides (NHD, HND, K and V in one
//            page); slot = block * block_size + position. Slots outside the cache, -1 first of all, are skipped by the write.
//            Gathered tokens past the last sequence are left alone; a block id outside the cache reads as zeros.
// Error      none: bitwise equal to the oracle (kernels/reference/kv_cache.py) for every half and every positive normal scale.
// Layout     blockIdx.y: key or value; threadIdx.y: token in the block; threadIdx.x: item, a pack of N elements of one head; a
//            thread takes four items at a time, blockDim.x apart.
// Resources  no shared memory, at most 64 registers, no spills.
// Method     a division for each element would cost more than the memory traffic of SM70, so the quotient comes from the
//            reciprocal with one correction step (Markstein 1990: correctly rounded when the reciprocal is, and the divisor's
//            mantissa is not all ones); scales for which that does not hold, and packs with NaN or infinity, are divided.

#include "../common/fast_divide.h"
#include "../common/fp8.h"
#include "common.cuh"

namespace volta {

constexpr int kBatch = 4;  // packs of a thread whose loads are under way together

// A number of the cache: E4M3 and E5M2 live in bytes; Half is the cache that stores x itself.
struct Half {};
template <typename F>
struct Stored {
  using type = uint8;
};
template <>
struct Stored<Half> {
  using type = __half;
};

// Divides by one number, many times.
class Divisor {
 public:
  __device__ __forceinline__ explicit Divisor(float by) : by_(by), reciprocal_(1.0f / by) {
    const unsigned bits = bits_of(by), exponent = bits >> 23;  // a negative number has an exponent of 256 or more here
    fast_ = exponent > 127 - 60 && exponent < 127 + 60 && (bits & 0x7fffffu) != 0x7fffffu;
  }
  // Whether `fast` gives the correctly rounded quotient of every finite half that is not negative.
  __device__ __forceinline__ bool has_fast() const { return fast_; }
  __device__ __forceinline__ float fast(float x) const {
    const float quotient = x * reciprocal_;
    return fmaf(fmaf(-by_, quotient, x), reciprocal_, quotient);
  }
  __device__ __forceinline__ float operator()(float x) const { return x / by_; }

 private:
  float by_, reciprocal_;
  bool fast_;
};

// Whether one of the two halves in a word is NaN or infinite.
__device__ __forceinline__ bool any_special(unsigned halves) {
  return (((halves & 0x7fff7fffu) + 0x04000400u) & 0x80008000u) != 0;
}

__device__ __forceinline__ float2 to_floats(unsigned halves) {
  return __half22float2(*reinterpret_cast<const __half2*>(&halves));
}

// Codes of eight halves divided by the scale. Signs are taken from the halves, four at a time.
template <typename F>
__device__ __forceinline__ Pack<uint8, 8> encode_pack(const Pack<__half, 8>& x, const Divisor& scale) {
  const auto halves = *reinterpret_cast<const Pack<unsigned, 4>*>(&x);
  Pack<uint8, 8> codes;
  const bool special = any_special(halves.at[0]) || any_special(halves.at[1]) || any_special(halves.at[2]) ||
                       any_special(halves.at[3]);
  if (special || !scale.has_fast()) {
#pragma unroll
    for (int i = 0; i < 8; ++i) codes.at[i] = F::encode(scale(to_float(x.at[i])));
    return codes;
  }
  Pack<unsigned, 2> words;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 low = to_floats(halves.at[2 * i] & 0x7fff7fffu), high = to_floats(halves.at[2 * i + 1] & 0x7fff7fffu);
    const unsigned signs = __byte_perm(halves.at[2 * i], halves.at[2 * i + 1], 0x7531) & 0x80808080u;
    words.at[i] = signs + F::encode_magnitude(scale.fast(low.x)) + (F::encode_magnitude(scale.fast(low.y)) << 8) +
                  (F::encode_magnitude(scale.fast(high.x)) << 16) + (F::encode_magnitude(scale.fast(high.y)) << 24);
  }
  return *reinterpret_cast<const Pack<uint8, 8>*>(&words);
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
__device__ __forceinline__ Pack<__half, 8> decode_pack(const Pack<uint8, 8>& codes, float scale) {
  const auto words = *reinterpret_cast<const Pack<unsigned, 2>*>(&codes);
  Pack<__half, 8> x;
  const float factor = scale * Expand<F>::kFactor;  // exact unless it overflows, which only a scale of 2^120 does
  if (Expand<F>::special(words.at[0]) || Expand<F>::special(words.at[1])) {
#pragma unroll
    for (int i = 0; i < 8; ++i) x.at[i] = from_float<__half>(F::decode(codes.at[i]) * scale);
    return x;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned two = __byte_perm(words.at[i / 2], 0, i % 2 == 0 ? 0x1404 : 0x3424);
    const float2 values = to_floats(Expand<F>::halves(two));
    x.at[2 * i] = from_float<__half>(values.x * factor);
    x.at[2 * i + 1] = from_float<__half>(values.y * factor);
  }
  return x;
}

struct CacheStrides {
  int64 block, position, head;
};

template <typename F>
struct CacheSide {
  typename Stored<F>::type* cache;
  CacheStrides cache_strides;
  __half* dense;  // [tokens, heads, width]
  int64 token_stride, head_stride;
  const float* scale;
  int items;                   // packs of a token: heads * width / N
  FastDivide items_of_a_head;  // width / N
};

template <typename F>
struct WriteArguments {
  CacheSide<F> sides[2];  // key, value
  const int64* slots;
  int64 tokens, total_slots;
  FastDivide block_size;
};

template <typename F>
struct GatherArguments {
  CacheSide<F> sides[2];    // key, value
  const int* block_table;   // [requests, table_stride]
  const int* starts;        // [requests + 1], ascending: request r owns the output tokens starts[r] .. starts[r + 1]
  const int* first_tokens;  // [requests] or null: where in its sequence request r's first output token is
  int64 table_stride, tokens, blocks;
  FastDivide block_size;
  int requests, table_width;
};

__device__ __forceinline__ void split(int64 slot, const FastDivide& by, int64& block, int& position) {
  if (slot >> 31 == 0) {
    const unsigned quotient = by(static_cast<unsigned>(slot));
    block = quotient;
    position = static_cast<int>(static_cast<unsigned>(slot) - quotient * by.divisor);
  } else {
    block = slot / by.divisor;
    position = static_cast<int>(slot - block * by.divisor);
  }
}

// Move the packs of one token and side, kBatch at a time so that their loads overlap; `change` turns what was loaded into
// what is stored.
template <int N, typename From, typename To, typename Change>
__device__ __forceinline__ void move_token(
    const From* from, int64 from_head, To* to, int64 to_head, int items, const FastDivide& items_of_a_head, Change change) {
  for (int first = threadIdx.x; first < items; first += kBatch * blockDim.x) {
    Pack<From, N> x[kBatch];
    int head[kBatch], at[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int item = first + k * blockDim.x;
      if (item >= items) break;
      head[k] = items_of_a_head(item);
      at[k] = (item - head[k] * items_of_a_head.divisor) * N;
      x[k] = load<From, N>(from + head[k] * from_head + at[k]);
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (first + k * blockDim.x >= items) break;
      store<To, N>(to + head[k] * to_head + at[k], change(x[k]));
    }
  }
}

template <typename F, int N>
__device__ __forceinline__ void write(const WriteArguments<F>& a) {
  const int64 token = token_of_thread();
  if (token >= a.tokens) return;
  const int64 slot = a.slots[token];
  if (slot < 0 || slot >= a.total_slots) return;
  int64 block;
  int position;
  split(slot, a.block_size, block, position);
  const CacheSide<F>& side = a.sides[blockIdx.y];
  const __half* from = side.dense + token * side.token_stride;
  auto* to = side.cache + block * side.cache_strides.block + position * side.cache_strides.position;
  const auto move = [&](auto change) {
    move_token<N>(from, side.head_stride, to, side.cache_strides.head, side.items, side.items_of_a_head, change);
  };
  if constexpr (sizeof(typename Stored<F>::type) == 2) {
    move([](const Pack<__half, N>& x) { return x; });
  } else if constexpr (N == 8) {
    const Divisor scale(*side.scale);
    move([&](const Pack<__half, N>& x) { return encode_pack<F>(x, scale); });
  } else {
    const float scale = *side.scale;
    move([&](const Pack<__half, N>& x) { return Pack<uint8, N>{F::encode(to_float(x.at[0]) / scale)}; });
  }
}

// The request that owns output token `token`: the last r with starts[r] <= token (empty requests own none).
__device__ __forceinline__ int request_of(const int* starts, int requests, int64 token) {
  int low = 0, high = requests;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (starts[middle] <= token) low = middle; else high = middle;
  }
  return low;
}

// The block and position that output token `token` comes from; false if they are outside the cache.
template <typename F>
__device__ __forceinline__ bool find_source(const GatherArguments<F>& a, int64 token, int64& block, int& position) {
  const int request = request_of(a.starts, a.requests, token);
  const int64 index = token - a.starts[request] + (a.first_tokens == nullptr ? 0 : a.first_tokens[request]);
  int64 column;
  split(index, a.block_size, column, position);
  if (index < 0 || column >= a.table_width) return false;
  block = a.block_table[request * a.table_stride + column];
  return block >= 0 && block < a.blocks;
}

template <typename F, int N>
__device__ __forceinline__ void gather(const GatherArguments<F>& a) {
  using Code = typename Stored<F>::type;
  const int64 token = token_of_thread();
  if (token >= a.tokens || token < a.starts[0] || token >= a.starts[a.requests]) return;
  int64 block = 0;
  int position = 0;
  const bool present = find_source(a, token, block, position);
  const CacheSide<F>& side = a.sides[blockIdx.y];
  __half* to = side.dense + token * side.token_stride;
  if (!present) {  // whatever is read instead (the output itself) does not count
    move_token<N>(
        static_cast<const __half*>(to), side.head_stride, to, side.head_stride, side.items, side.items_of_a_head,
        [](const Pack<__half, N>&) { return Pack<__half, N>{}; });
    return;
  }
  const Code* from = side.cache + block * side.cache_strides.block + position * side.cache_strides.position;
  const auto move = [&](auto change) {
    move_token<N>(from, side.cache_strides.head, to, side.head_stride, side.items, side.items_of_a_head, change);
  };
  if constexpr (sizeof(Code) == 2) {
    move([](const Pack<Code, N>& x) { return x; });
  } else {
    const float scale = *side.scale;
    move([scale](const Pack<Code, N>& x) {
      if constexpr (N == 8)
        return decode_pack<F>(x, scale);
      else
        return Pack<__half, N>{from_float<__half>(F::decode(x.at[0]) * scale)};
    });
  }
}

}  // namespace volta

#define VOLTA_KV(type, F, N)                                                                                         \
  extern "C" __global__ void kv_cache_write_f16_##type##_paged##N##_sm70(volta::WriteArguments<volta::F> a) {        \
    volta::write<volta::F, N>(a);                                                                                    \
  }                                                                                                                  \
  extern "C" __global__ void kv_cache_gather_##type##_f16_paged##N##_sm70(volta::GatherArguments<volta::F> a) {      \
    volta::gather<volta::F, N>(a);                                                                                   \
  }

VOLTA_KV(f16, Half, 8)
VOLTA_KV(f16, Half, 1)
VOLTA_KV(e4m3, E4M3, 8)
VOLTA_KV(e4m3, E4M3, 1)
VOLTA_KV(e5m2, E5M2, 8)
VOLTA_KV(e5m2, E5M2, 1)
