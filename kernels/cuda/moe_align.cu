// Sorting of routed tokens by expert, each expert's list padded to whole blocks of a grouped matrix product.
//
//   moe_align_block_size:          entries i = token * k + j, expert ids[i], in the order of (expert, i)
//   moe_lora_align_block_size:     the same once for each adapter, over the entries of its tokens
//   batched_moe_align_block_size:  batch b's first counts[b] rows b * max_tokens + i, in the order of (b, i)
//
// Contract   sorted[at] = entry; unused places hold `missing`, a number that no entry has (the number of entries; for
//            batches, their number times max_tokens). block_experts[b] = expert of sorted[b * block .. ], -1 past the last
//            block. total = places of all whole blocks. With an expert map, ids are translated by it first, and block_experts
//            holds what they become. Entries whose expert is negative, not below the number of experts, or mapped to such
//            a number, are left out. scatter[i] = i, or -1 if the entry is left out. Nothing is written beyond the outputs'
//            ends. Adapter l writes the l-th part of each output; slots that are -1, not below max_loras, or switched off
//            leave theirs alone.
// Upstream   vLLM's csrc/libtorch_stable/moe/moe_align_sum_kernels.cu with these arguments, and fused_moe/
//            moe_align_block_size.py of 0.32.0, which allocates and reads the outputs. Different on purpose: there the order
//            inside an expert is whatever atomics make of it, there are at most 992 experts, and neither
//            outputs nor map values are checked for their range.
// Error      none: integers, equal to the oracle (kernels/reference/moe.py). Stable: the same places for every launch.
// Layout     a block of 256 threads for eight experts, one a warp; blockIdx.y: adapter. Every block counts all entries, so
//            that no block waits for another; each warp then collects its expert's entries by ballot, 32 at a time.
// Resources  16 KiB of shared memory, at most 64 registers, no spills.
// Method     counting sort without a workspace: one launch, at the price of reading the ids twice in each block (they
//            stay in the L1 and L2 caches).

#include "../common/fast_divide.h"
#include "common.cuh"

namespace volta {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;  // experts of a block
constexpr int kMaxExperts = 4096;
constexpr int kBatch = 8;  // entries of a lane whose ids are under way together

struct Places {
  int* sorted;
  int* block_experts;
  int* total;
  int64 sorted_size, blocks;
  FastDivide block;
  int missing;
};

struct AlignArguments {
  Places places;
  Ids ids;
  const int* map;  // [experts] or null
  int* scatter;    // [entries] or null
  int entries, experts;
};

struct LoraArguments {
  AlignArguments align;
  const int* adapters;      // [slots]
  const int* enabled;       // [max_loras]
  const int* token_adapter;  // [tokens]
  FastDivide entries_of_a_token;
  int max_loras;
};

struct BatchedArguments {
  Places places;
  const int* counts;  // [batches]
  int batches, max_tokens;
};

__device__ __forceinline__ int padded(int count, const FastDivide& block) {
  return block(count + block.divisor - 1) * block.divisor;
}

__device__ __forceinline__ void put(const Places& p, int64 at, int entry) {
  if (at < p.sorted_size) p.sorted[at] = entry;
}

// Where the lists of this block's eight experts start, and where the last list of all ends.
struct Starts {
  int own[kWarps];
  int total;
};

// By the whole block, for `experts` lists of count(e) entries.
template <typename Count>
__device__ __forceinline__ void find_starts(Starts& starts, int experts, const FastDivide& block, Count count) {
  const int first = blockIdx.x * kWarps;
  if (threadIdx.x < kWarps) starts.own[threadIdx.x] = 0;
  if (threadIdx.x == 0) starts.total = 0;
  __syncthreads();
  int before = 0, all = 0;
  for (int e = threadIdx.x; e < experts; e += kThreads) {
    const int size = padded(count(e), block);
    all += size;
    if (e < first) before += size;
  }
  atomicAdd(&starts.total, all);
  atomicAdd(&starts.own[0], before);
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < kWarps && first + w < experts; ++w)
      starts.own[w] = starts.own[w - 1] + padded(count(first + w - 1), block);
  __syncthreads();
}

// What does not depend on the entries: the tail of a list and its blocks' expert (by one warp) ...
__device__ __forceinline__ void finish_list(const Places& p, int expert, int start, int count) {
  const int lane = threadIdx.x % 32, size = padded(count, p.block);
  for (int i = count + lane; i < size; i += 32) put(p, static_cast<int64>(start) + i, p.missing);
  const int64 first = p.block(start);
  for (int b = lane; b < p.block(size); b += 32)
    if (first + b < p.blocks) p.block_experts[first + b] = expert;
}

// ... and everything behind the last list (by all blocks together).
__device__ __forceinline__ void finish_all(const Places& p, int total) {
  const int64 thread = static_cast<int64>(blockIdx.x) * kThreads + threadIdx.x;
  const int64 threads = static_cast<int64>(gridDim.x) * kThreads;
  for (int64 i = total + thread; i < p.sorted_size; i += threads) p.sorted[i] = p.missing;
  for (int64 b = p.block(total) + thread; b < p.blocks; b += threads) p.block_experts[b] = -1;
  if (thread == 0) *p.total = total;
}

// The list that an entry belongs to; negative if none.
__device__ __forceinline__ int list_of(const AlignArguments& a, int entry) {
  const int64 id = a.ids[entry];
  if (id < 0 || id >= a.experts) return -1;
  if (a.map == nullptr) return static_cast<int>(id);
  const int local = a.map[id];
  return local < a.experts ? local : -1;
}

// One warp puts the entries of `expert` into their places, in order.
template <typename List>
__device__ __forceinline__ void collect(const AlignArguments& a, int expert, int start, int count, List list) {
  const int lane = threadIdx.x % 32;
  int found = 0;
  for (int first = 0; found < count && first < a.entries; first += kBatch * 32) {
    int lists[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int entry = first + k * 32 + lane;
      lists[k] = entry < a.entries ? list(entry) : -1;
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const unsigned hits = __ballot_sync(0xffffffffu, lists[k] == expert);
      const int rank = found + __popc(hits & ((1u << lane) - 1));
      if (lists[k] == expert) put(a.places, static_cast<int64>(start) + rank, first + k * 32 + lane);
      found += __popc(hits);
    }
  }
}

template <typename List>
__device__ __forceinline__ void align(const AlignArguments& a, List list) {
  __shared__ int counts[kMaxExperts];
  __shared__ Starts starts;
  for (int e = threadIdx.x; e < a.experts; e += kThreads) counts[e] = 0;
  __syncthreads();
  for (int entry = threadIdx.x; entry < a.entries; entry += kThreads) {
    const int e = list(entry);
    if (e >= 0) atomicAdd(&counts[e], 1);
    if (a.scatter != nullptr && blockIdx.x == 0) a.scatter[entry] = e >= 0 ? entry : -1;
  }
  __syncthreads();
  find_starts(starts, a.experts, a.places.block, [&](int e) { return counts[e]; });
  const int warp = threadIdx.x / 32, expert = blockIdx.x * kWarps + warp;
  if (expert < a.experts) {
    finish_list(a.places, expert, starts.own[warp], counts[expert]);
    collect(a, expert, starts.own[warp], counts[expert], list);
  }
  finish_all(a.places, starts.total);
}

__device__ __forceinline__ void align_adapter(LoraArguments a) {
  const int adapter = a.adapters[blockIdx.y];
  if (adapter < 0 || adapter >= a.max_loras || a.enabled[adapter] == 0) return;
  Places& p = a.align.places;
  p.sorted += adapter * p.sorted_size;
  p.block_experts += adapter * p.blocks;
  p.total += adapter;
  align(a.align, [&](int entry) {
    return a.token_adapter[a.entries_of_a_token(entry)] == adapter ? list_of(a.align, entry) : -1;
  });
}

__device__ __forceinline__ void align_batches(const BatchedArguments& a) {
  __shared__ Starts starts;
  const auto count = [&](int b) { return max(0, min(a.counts[b], a.max_tokens)); };
  find_starts(starts, a.batches, a.places.block, count);
  const int warp = threadIdx.x / 32, batch = blockIdx.x * kWarps + warp;
  if (batch < a.batches) {
    const int rows = count(batch);
    for (int i = threadIdx.x % 32; i < rows; i += 32)
      put(a.places, static_cast<int64>(starts.own[warp]) + i, batch * a.max_tokens + i);
    finish_list(a.places, batch, starts.own[warp], rows);
  }
  finish_all(a.places, starts.total);
}

}  // namespace volta

extern "C" __global__ void moe_align_block_size_i32_i32_experts_sm70(volta::AlignArguments a) {
  volta::align(a, [&](int entry) { return volta::list_of(a, entry); });
}
extern "C" __global__ void moe_lora_align_block_size_i32_i32_experts_sm70(volta::LoraArguments a) {
  volta::align_adapter(a);
}
extern "C" __global__ void batched_moe_align_block_size_i32_i32_experts_sm70(volta::BatchedArguments a) {
  volta::align_batches(a);
}
