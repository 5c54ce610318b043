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
// Layout     a block of 8 to 32 warps for `own` neighbouring experts, 1 to 8; blockIdx.y: adapter. Warp w has the `segment`
//            entries from w * segment on, 32 at a time, one a lane; lane e also knows where the next entry of the block's
//            e-th expert goes. Batches need no sorting: a block of 1 to 8 warps for each.
// Resources  17.3 KiB of shared memory, at most 64 registers (1,024 threads have no more), no spills.
// Method     counting sort without a workspace, in one launch. Each block counts the entries of all experts in shared
//            memory, so that no block waits for another, and those of its own experts for each warp; sums over both say
//            where each warp's entries go. The warps then go through their segments again. One vote finds entries of the
//            block's experts (most often there are none); three more, one for each bit of an expert's number in the block,
//            rank them. Ids are loaded in batches of eight a lane. Every block reads all ids twice, hence about 64 blocks:
//            fewer leave SMs idle, more read more.

#include "../common/fast_divide.h"
#include "common.cuh"

namespace volta {

constexpr unsigned kAll = 0xffffffffu;
constexpr int kMaxWarps = 32;
constexpr int kMaxOwn = 8;  // experts of a block, a power of two
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
  int own, segment;  // experts of a block, entries of a warp
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

__device__ __forceinline__ int warp_sum(int x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kAll, x, offset);
  return x;
}

// Sum over the lanes before this one.
__device__ __forceinline__ int sum_before(int x) {
  const int lane = threadIdx.x % 32;
  int sum = x;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(kAll, sum, offset);
    if (lane >= offset) sum += other;
  }
  return sum - x;
}

struct Extent {
  int start, total;
};

// Where one of `lists` lists of count(i) entries starts, and where the last of them ends. By a warp.
template <typename Count>
__device__ __forceinline__ Extent extent_of(int list, int lists, const FastDivide& block, Count count) {
  int start = 0, total = 0;
  for (int i = threadIdx.x % 32; i < lists; i += 32) {
    const int size = padded(count(i), block);
    total += size;
    if (i < list) start += size;
  }
  return {warp_sum(start), warp_sum(total)};
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
  const int64 thread = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 threads = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 i = total + thread; i < p.sorted_size; i += threads) p.sorted[i] = p.missing;
  for (int64 b = p.block(total) + thread; b < p.blocks; b += threads) p.block_experts[b] = -1;
  if (thread == 0) *p.total = total;
}

// What ids say of entries `entry`, entry + 32, ... before `end`; -1 for other entries and for what 32 bits do not hold.
template <typename Id>
__device__ __forceinline__ void load_ids(const Id* ids, int entry, int end, int (&found)[kBatch]) {
  Id loaded[kBatch];
#pragma unroll
  for (int k = 0; k < kBatch; ++k) loaded[k] = entry + k * 32 < end ? ids[entry + k * 32] : Id{-1};
#pragma unroll
  for (int k = 0; k < kBatch; ++k) found[k] = static_cast<int>(loaded[k]) == loaded[k] ? static_cast<int>(loaded[k]) : -1;
}

// The lists of entries `entry`, entry + 32, ... before `end`; negative for those that belong to none.
__device__ __forceinline__ void find_lists(const AlignArguments& a, int entry, int end, int (&lists)[kBatch]) {
  if (a.ids.wide)
    load_ids(static_cast<const int64*>(a.ids.data), entry, end, lists);
  else
    load_ids(static_cast<const int*>(a.ids.data), entry, end, lists);
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    if (lists[k] >= a.experts) lists[k] = -1;
  if (a.map == nullptr) return;
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    if (lists[k] >= 0) lists[k] = a.map[lists[k]];
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    if (lists[k] >= a.experts) lists[k] = -1;
}

// Calls take(entry, list) for entries from `begin` on, 32 at a time and in order; behind `end` with a list below 0. By a warp.
template <typename Lists, typename Take>
__device__ __forceinline__ void for_segment(int begin, int end, Lists find_lists, Take take) {
  for (int first = begin; first < end; first += kBatch * 32) {
    const int entry = first + threadIdx.x % 32;
    int lists[kBatch];
    find_lists(entry, end, lists);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) take(entry + k * 32, lists[k]);
  }
}

template <typename Lists>
__device__ __forceinline__ void align(const AlignArguments& a, Lists lists) {
  __shared__ int counts[kMaxExperts + 32];       // of all experts; and by lane, so that they do not collide, of none
  __shared__ int parts[kMaxWarps][kMaxOwn + 1];  // entries of the block's experts by warp, and then their first places
  __shared__ int total;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int begin = warp * a.segment, end = min(begin + a.segment, a.entries);
  const int first = blockIdx.x * a.own, own = min(a.own, a.experts - first);
  const auto number_of = [&](int list) { return static_cast<unsigned>(list) - first; };  // among the block's own

  for (int e = threadIdx.x; e < a.experts; e += blockDim.x) counts[e] = 0;
  if (lane < kMaxOwn) parts[warp][lane] = 0;
  __syncthreads();
  const bool scatters = a.scatter != nullptr && blockIdx.x == 0;
  for_segment(begin, end, lists, [&](int entry, int list) {
    atomicAdd(&counts[list >= 0 ? list : kMaxExperts + lane], 1);
    if (number_of(list) < own) atomicAdd(&parts[warp][number_of(list)], 1);
    if (scatters && entry < end) a.scatter[entry] = list >= 0 ? entry : -1;
  });
  __syncthreads();

  for (int e = warp; e < own; e += warps) {
    const Extent extent = extent_of(first + e, a.experts, a.places.block, [&](int i) { return counts[i]; });
    parts[lane][e] = extent.start + sum_before(lane < warps ? parts[lane][e] : 0);
    finish_list(a.places, first + e, extent.start, counts[first + e]);
    if (e == 0 && lane == 0) total = extent.total;
  }
  __syncthreads();

  int next = lane < own ? parts[warp][lane] : 0;
  for_segment(begin, end, lists, [&](int entry, int list) {
    const unsigned number = number_of(list);
    unsigned alike = __ballot_sync(kAll, number < own), of_lane = alike;
    if (alike == 0) return;
#pragma unroll
    for (int bit = 1; bit < kMaxOwn; bit *= 2) {
      const unsigned set = __ballot_sync(kAll, (number & bit) != 0);
      alike &= number & bit ? set : ~set;
      of_lane &= lane & bit ? set : ~set;
    }
    const int start = __shfl_sync(kAll, next, number % kMaxOwn);
    if (number < own) put(a.places, start + __popc(alike & ((1u << lane) - 1)), entry);
    next += __popc(of_lane);
  });
  finish_all(a.places, total);
}

__device__ __forceinline__ void align_adapter(LoraArguments a) {
  const int adapter = a.adapters[blockIdx.y];
  if (adapter < 0 || adapter >= a.max_loras || a.enabled[adapter] == 0) return;
  Places& p = a.align.places;
  p.sorted += adapter * p.sorted_size;
  p.block_experts += adapter * p.blocks;
  p.total += adapter;
  align(a.align, [&](int entry, int end, int(&lists)[kBatch]) {
    find_lists(a.align, entry, end, lists);
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (lists[k] >= 0 && a.token_adapter[a.entries_of_a_token(entry + k * 32)] != adapter) lists[k] = -1;
  });
}

__device__ __forceinline__ void align_batches(const BatchedArguments& a) {
  const auto count = [&](int b) { return max(0, min(a.counts[b], a.max_tokens)); };
  const int batch = blockIdx.x, rows = batch < a.batches ? count(batch) : 0;
  const Extent extent = extent_of(batch, a.batches, a.places.block, count);
  for (int i = threadIdx.x; i < rows; i += blockDim.x)
    put(a.places, static_cast<int64>(extent.start) + i, batch * a.max_tokens + i);
  if (threadIdx.x < 32) finish_list(a.places, batch, extent.start, rows);
  finish_all(a.places, extent.total);
}

}  // namespace volta

extern "C" __global__ void __launch_bounds__(1024) moe_align_block_size_i32_i32_experts_sm70(volta::AlignArguments a) {
  volta::align(a, [&](int entry, int end, int(&lists)[volta::kBatch]) { volta::find_lists(a, entry, end, lists); });
}
extern "C" __global__ void __launch_bounds__(1024) moe_lora_align_block_size_i32_i32_experts_sm70(volta::LoraArguments a) {
  volta::align_adapter(a);
}
extern "C" __global__ void batched_moe_align_block_size_i32_i32_experts_sm70(volta::BatchedArguments a) {
  volta::align_batches(a);
}
