// Paged KV cache: writing new tokens, and gathering sequences back to dense fp16.
//
//   write:   stored = encode(x / scale)         gather:   x = round_to_half(decode(stored) * scale)
//
// x / scale is the correctly rounded fp32 quotient; encode rounds it to nearest even, saturates, and keeps NaN
// (common/fp8.h). Caches in float16 hold x itself and ignore the scale.
//
// Contract   cache[block, position, head, element] with unit element stride and any other strides (NHD, HND, K and V in one
//            page); `split` writes the layout of reshape_and_cache, keys in runs of x elements, values element by element.
//            slot = block * block_size + position. Slots outside the cache, -1 first of all, are skipped by the write.
//            Gathered tokens past the last sequence are left alone; a block id outside the cache reads as zeros.
// Error      none: bitwise equal to the oracle (kernels/reference/kv_cache.py) for every half and every positive normal scale.
// Layout     a row of threads (threadIdx.y) takes four heads of one token, keys and values; threadIdx.x: pack of N elements
//            of a head. Keys and values of a head are often neighbours in memory, so one thread moves both.
// Resources  no shared memory, at most 80 registers, no spills.
// Method     all loads of a thread are issued before anything waits for one of them; fp8_packs.cuh converts.

#include "../common/kv_cache.h"
#include "fp8_packs.cuh"

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

// N elements as they are moved: eight of them in words, so that nobody takes bytes apart and together again.
template <typename T, int N>
struct Moved {
  using type = Pack<T, N>;
};
template <typename T>
struct Moved<T, 8> {
  using type = Pack<unsigned, 2 * sizeof(T)>;
};
template <typename T, int N>
using moved = typename Moved<T, N>::type;

template <typename M>
__device__ __forceinline__ void put(void* to, const M& x) {
  *static_cast<M*>(to) = x;
}
// In the machine's own words: the compiler takes some of these apart into four stores where heads may be absent.
__device__ __forceinline__ void put(void* to, const Pack<unsigned, 4>& x) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(x.at[0]), "r"(x.at[1]), "r"(x.at[2]), "r"(x.at[3])
               : "memory");
}

// What a row of threads works on.
struct RowOfThreads {
  int64 token;
  int head, heads;  // the first one, and how many
};

// False for a row past the last one.
__device__ __forceinline__ bool find_row(const CacheRows& rows, RowOfThreads& found) {
  const int64 row = token_of_thread();
  if (row >= rows.count) return false;
  const unsigned token = rows.groups(static_cast<unsigned>(row));
  found.token = token;
  found.head = static_cast<int>(static_cast<unsigned>(row) - token * rows.groups.divisor) * kHeadsOfARow;
  found.heads = min(rows.heads - found.head, kHeadsOfARow);
  return true;
}

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

template <typename T, int N>
struct Packs {
  moved<T, N> of[kHeadsOfARow];
};

template <typename T, int N>
__device__ __forceinline__ void load_heads(const T* from, int64 head_stride, int heads, Packs<T, N>& x) {
#pragma unroll
  for (int k = 0; k < kHeadsOfARow; ++k)
    if (k < heads) x.of[k] = *reinterpret_cast<const moved<T, N>*>(from + k * head_stride);
}

__device__ __forceinline__ __half* dense_of(const CacheSide& side, const RowOfThreads& row, int at) {
  return static_cast<__half*>(side.dense) + row.token * side.dense_token_stride + row.head * side.dense_head_stride + at;
}

// The conversion of a cache in float16.
template <int N>
struct Unchanged {
  __device__ __forceinline__ Unchanged(const CacheSide&, int) {}
  __device__ __forceinline__ moved<__half, N> operator()(const moved<__half, N>& x, int) const { return x; }
};

// A pack as it is stored, for head k of the row.
template <typename F, int N>
struct Encoder {
  __device__ __forceinline__ Encoder(const CacheSide& side, int) : scale(*side.scale) {}
  __device__ __forceinline__ Pack<unsigned, 2> operator()(const Pack<unsigned, 4>& x, int) const {
    return encode_pack<F>(x, scale);
  }
  Divisor<F> scale;
};
template <typename F>
struct Encoder<F, 1> {  // one by one, and the only one that takes a scale for each head
  __device__ __forceinline__ Encoder(const CacheSide& side, int head)
      : scale(side.scale + head * side.scale_stride), stride(side.scale_stride) {}
  __device__ __forceinline__ Pack<uint8, 1> operator()(const Pack<__half, 1>& x, int k) const {
    return {F::encode(to_float(x.at[0]) / scale[k * stride])};
  }
  const float* scale;
  int stride;
};
template <int N>
struct Encoder<Half, N> : Unchanged<N> {
  using Unchanged<N>::Unchanged;
};
template <>
struct Encoder<Half, 1> : Unchanged<1> {
  using Unchanged<1>::Unchanged;
};

// kRuns: elements lie in runs; kScatter: each lies alone.
template <typename F, int N, bool kRuns, bool kScatter>
__device__ __forceinline__ void store_heads(
    const CacheSide& side, const RowOfThreads& row, int at, int64 block, int position, const Packs<__half, N>& x) {
  using Code = typename Stored<F>::type;
  int64 offset = at;
  if constexpr (kScatter) {
    offset = at * side.run_stride;
  } else if constexpr (kRuns) {
    const unsigned run = side.run(at);
    offset = run * side.run_stride + (at - run * side.run.divisor);
  }
  Code* to = static_cast<Code*>(side.cache) + block * side.block_stride + position * side.position_stride +
             row.head * side.head_stride + offset;
  const Encoder<F, N> encoded(side, row.head);
#pragma unroll
  for (int k = 0; k < kHeadsOfARow; ++k) {
    if (k >= row.heads) break;
    const moved<Code, N> codes = encoded(x.of[k], k);
    if constexpr (kScatter) {
      const auto each = *reinterpret_cast<const Pack<Code, N>*>(&codes);
#pragma unroll
      for (int i = 0; i < N; ++i) to[k * side.head_stride + i * side.run_stride] = each.at[i];
    } else {
      put(to + k * side.head_stride, codes);
    }
  }
}

template <typename F, int N, bool kSplit>
__device__ __forceinline__ void write(const CacheWriteArguments& a) {
  RowOfThreads row;
  if (!find_row(a.rows, row)) return;
  const CacheSide &keys = a.sides[0], &values = a.sides[1];
  const int64 slot = a.slots[row.token];
  for (int at = threadIdx.x * N; at < max(keys.width, values.width); at += blockDim.x * N) {
    Packs<__half, N> key, value;
    load_heads(dense_of(keys, row, at), keys.dense_head_stride, at < keys.width ? row.heads : 0, key);
    load_heads(dense_of(values, row, at), values.dense_head_stride, at < values.width ? row.heads : 0, value);
    if (slot < 0 || slot >= a.total_slots) return;
    int64 block;
    int position;
    split(slot, a.block_size, block, position);
    if (at < keys.width) store_heads<F, N, kSplit, false>(keys, row, at, block, position, key);
    if (at < values.width) store_heads<F, N, kSplit, kSplit>(values, row, at, block, position, value);
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
__device__ __forceinline__ bool find_source(const CacheGatherArguments& a, int64 token, int64& block, int& position) {
  const int request = request_of(a.starts, a.requests, token);
  const int64 index = token - a.starts[request] + (a.first_tokens == nullptr ? 0 : a.first_tokens[request]);
  int64 column;
  split(index, a.block_size, column, position);
  if (index < 0 || column >= a.table_width) return false;
  block = a.block_table[request * a.table_stride + column];
  return block >= 0 && block < a.blocks;
}

template <typename F, int N>
struct Decoder {
  __device__ __forceinline__ Decoder(const CacheSide& side, int) : scale(*side.scale) {}
  __device__ __forceinline__ Pack<unsigned, 4> operator()(const Pack<unsigned, 2>& x, int) const {
    return decode_pack<F>(x, scale);
  }
  float scale;
};
template <typename F>
struct Decoder<F, 1> {
  __device__ __forceinline__ Decoder(const CacheSide& side, int head)
      : scale(side.scale + head * side.scale_stride), stride(side.scale_stride) {}
  __device__ __forceinline__ Pack<__half, 1> operator()(const Pack<uint8, 1>& x, int k) const {
    return {from_float<__half>(F::decode(x.at[0]) * scale[k * stride])};
  }
  const float* scale;
  int stride;
};
template <int N>
struct Decoder<Half, N> : Unchanged<N> {
  using Unchanged<N>::Unchanged;
};
template <>
struct Decoder<Half, 1> : Unchanged<1> {
  using Unchanged<1>::Unchanged;
};

template <typename Code>
__device__ __forceinline__ const Code* cached(
    const CacheSide& side, const RowOfThreads& row, int at, int64 block, int position) {
  return static_cast<const Code*>(side.cache) + block * side.block_stride + position * side.position_stride +
         row.head * side.head_stride + at;
}

template <typename F, int N>
__device__ __forceinline__ void read_heads(
    const CacheSide& side, const RowOfThreads& row, int at, bool present, const Packs<typename Stored<F>::type, N>& x) {
  __half* to = dense_of(side, row, at);
  const Decoder<F, N> decoded(side, row.head);
#pragma unroll
  for (int k = 0; k < kHeadsOfARow; ++k) {
    if (k >= row.heads) break;
    put(to + k * side.dense_head_stride, present ? decoded(x.of[k], k) : moved<__half, N>{});
  }
}

template <typename F, int N>
__device__ __forceinline__ void gather(const CacheGatherArguments& a) {
  using Code = typename Stored<F>::type;
  RowOfThreads row;
  if (!find_row(a.rows, row) || row.token < a.starts[0] || row.token >= a.starts[a.requests]) return;
  const CacheSide &keys = a.sides[0], &values = a.sides[1];
  int64 block = 0;
  int position = 0;
  const bool present = find_source(a, row.token, block, position);
  for (int at = threadIdx.x * N; at < max(keys.width, values.width); at += blockDim.x * N) {
    Packs<Code, N> key = {}, value = {};
    const int heads = present ? row.heads : 0;
    load_heads(cached<Code>(keys, row, at, block, position), keys.head_stride, at < keys.width ? heads : 0, key);
    load_heads(cached<Code>(values, row, at, block, position), values.head_stride, at < values.width ? heads : 0, value);
    if (at < keys.width) read_heads<F, N>(keys, row, at, present, key);
    if (at < values.width) read_heads<F, N>(values, row, at, present, value);
  }
}

}  // namespace volta

// Six blocks an SM hide the latency of memory; that leaves a thread 80 registers.
#define VOLTA_KV_KERNEL extern "C" __global__ void __launch_bounds__(volta::kThreadsOfRows, 6)

#define VOLTA_KV(type, F, N)                                                                        \
  VOLTA_KV_KERNEL kv_cache_write_f16_##type##_paged##N##_sm70(volta::CacheWriteArguments a) {       \
    volta::write<volta::F, N, false>(a);                                                            \
  }                                                                                                 \
  VOLTA_KV_KERNEL reshape_and_cache_f16_##type##_split##N##_sm70(volta::CacheWriteArguments a) {    \
    volta::write<volta::F, N, true>(a);                                                             \
  }                                                                                                 \
  VOLTA_KV_KERNEL kv_cache_gather_##type##_f16_paged##N##_sm70(volta::CacheGatherArguments a) {     \
    volta::gather<volta::F, N>(a);                                                                  \
  }

VOLTA_KV(f16, Half, 8)
VOLTA_KV(f16, Half, 1)
VOLTA_KV(e4m3, E4M3, 8)
VOLTA_KV(e4m3, E4M3, 1)
VOLTA_KV(e5m2, E5M2, 8)
VOLTA_KV(e5m2, E5M2, 1)
