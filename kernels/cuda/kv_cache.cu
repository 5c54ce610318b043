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
// Layout     threadIdx.y: token in the block; threadIdx.x: item, a pack of N elements of one head; key heads, then value heads.
// Resources  no shared memory, at most 40 registers, no spills.
// Method     a division for each element would cost more than the memory traffic of SM70, so the quotient comes from the
//            reciprocal with one correction step (Markstein 1990: correctly rounded when the reciprocal is, and the divisor's
//            mantissa is not all ones); scales for which that does not hold are divided by.

#include "../common/fp8.h"
#include "common.cuh"

namespace volta {

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
    const unsigned bits = bits_of(by), exponent = bits >> 23 & 0xffu;
    exact_ = exponent > 127 - 60 && exponent < 127 + 60 && (bits & 0x7fffffu) != 0x7fffffu;
  }
  __device__ __forceinline__ float operator()(float x) const {
    if (!exact_) return x / by_;
    const float quotient = x * reciprocal_;
    const float corrected = fmaf(fmaf(-by_, quotient, x), reciprocal_, quotient);
    return fabsf(x) < VOLTA_INFINITY && x != 0.0f ? corrected : x;  // NaN, infinity and signed zero stay themselves
  }

 private:
  float by_, reciprocal_;
  bool exact_;
};

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
  int heads, width;
};

template <typename F>
struct WriteArguments {
  CacheSide<F> key, value;
  const int64* slots;
  int64 tokens, total_slots;
  int block_size;
};

template <typename F>
struct GatherArguments {
  CacheSide<F> key, value;
  const int* block_table;   // [requests, table_stride]
  const int* starts;        // [requests + 1], ascending: request r owns the output tokens starts[r] .. starts[r + 1]
  const int* first_tokens;  // [requests] or null: where in its sequence request r's first output token is
  int64 table_stride, tokens, blocks;
  int requests, block_size, table_width;
};

__device__ __forceinline__ void split(int64 slot, int block_size, int64& block, int& position) {
  if (slot >> 31 == 0) {
    const unsigned quotient = static_cast<unsigned>(slot) / static_cast<unsigned>(block_size);
    block = quotient;
    position = static_cast<int>(static_cast<unsigned>(slot) - quotient * static_cast<unsigned>(block_size));
  } else {
    block = slot / block_size;
    position = static_cast<int>(slot - block * block_size);
  }
}

// What item `item` of a token is: a pack of one head of one side.
struct Item {
  bool value;
  int head, at;
};

template <int N>
__device__ __forceinline__ Item item_of(int item, int key_heads, int key_width, int key_items, int value_width) {
  const bool value = item >= key_items;
  const int packs = (value ? value_width : key_width) / N;
  const int index = value ? item - key_items : item;
  const int head = index / packs;
  return {value, head, (index - head * packs) * N};
}

template <typename F, int N>
__device__ __forceinline__ void write_pack(const CacheSide<F>& side, const Item& item, int64 token, int64 block, int position) {
  const __half* from = side.dense + token * side.token_stride + item.head * side.head_stride + item.at;
  auto* to = side.cache + block * side.cache_strides.block + position * side.cache_strides.position +
             item.head * side.cache_strides.head + item.at;
  const Pack<__half, N> x = load<__half, N>(from);
  if constexpr (sizeof(*to) == 2) {
    store<__half, N>(to, x);
  } else {
    const Divisor scale(*side.scale);
    Pack<uint8, N> codes;
#pragma unroll
    for (int i = 0; i < N; ++i) codes.at[i] = F::encode(scale(to_float(x.at[i])));
    store<uint8, N>(to, codes);
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
  const int key_items = a.key.heads * (a.key.width / N);
  const int items = key_items + a.value.heads * (a.value.width / N);
  for (int i = threadIdx.x; i < items; i += blockDim.x) {
    const Item item = item_of<N>(i, a.key.heads, a.key.width, key_items, a.value.width);
    write_pack<F, N>(item.value ? a.value : a.key, item, token, block, position);
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

template <typename F, int N>
__device__ __forceinline__ void read_pack(
    const CacheSide<F>& side, const Item& item, int64 token, int64 block, int position, bool present) {
  __half* to = side.dense + token * side.token_stride + item.head * side.head_stride + item.at;
  const auto* from = side.cache + block * side.cache_strides.block + position * side.cache_strides.position +
                     item.head * side.cache_strides.head + item.at;
  Pack<__half, N> x{};
  if (present) {
    if constexpr (sizeof(*from) == 2) {
      x = load<__half, N>(from);
    } else {
      const float scale = *side.scale;
      const Pack<uint8, N> codes = load<uint8, N>(from);
#pragma unroll
      for (int i = 0; i < N; ++i) x.at[i] = from_float<__half>(F::decode(codes.at[i]) * scale);
    }
  }
  store<__half, N>(to, x);
}

template <typename F, int N>
__device__ __forceinline__ void gather(const GatherArguments<F>& a) {
  const int64 token = token_of_thread();
  if (token >= a.tokens || token < a.starts[0] || token >= a.starts[a.requests]) return;
  const int request = request_of(a.starts, a.requests, token);
  const int64 index = token - a.starts[request] + (a.first_tokens == nullptr ? 0 : a.first_tokens[request]);
  int64 column;
  int position;
  split(index, a.block_size, column, position);
  const bool listed = index >= 0 && column < a.table_width;
  const int64 block = listed ? a.block_table[request * a.table_stride + column] : -1;
  const bool present = block >= 0 && block < a.blocks;
  const int key_items = a.key.heads * (a.key.width / N);
  const int items = key_items + a.value.heads * (a.value.width / N);
  for (int i = threadIdx.x; i < items; i += blockDim.x) {
    const Item item = item_of<N>(i, a.key.heads, a.key.width, key_items, a.value.width);
    read_pack<F, N>(item.value ? a.value : a.key, item, token, present ? block : 0, position, present);
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
