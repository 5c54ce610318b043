// The tokens that a row of logits can yield under its own temperature, top-k and top-p, with their probabilities.
//
//   x = logit / temperature (fp32)      w = e^(x - largest x)      tokens in order: larger logit first, then the lower id
//   top-k   the first k of that order, all when k <= 0
//   top-p   of these, a token whose predecessors' w sum up to less than p times all of theirs; the first one always;
//           all when p is not below 1
//   p(token) = fp32(w / sum of the w that are left); tokens leave in ascending order of their ids
//
// A temperature that is not above zero is greedy: the first token of the order, with probability 1. NaN and -infinity are no
// candidates; +infinity takes all. With no candidate at all, the count is 0.
//
// Contract   logits[row, token] in fp16 or fp32 with unit token stride; temperature, top_k and top_p by request, request_of_row
//            says which (or null: row r is request r). tokens and probabilities hold up to `width` <= 1024 of a row; behind the
//            last one come -1 and 0. A support of more tokens than that is not made: its count is -1, and the caller takes a
//            dense path. With k from 1 to `width` it cannot happen, and every k is known beforehand.
// Error      tokens and counts are exact, and probabilities have the same bits on CPU and GPU: sums and exponentials are float64
//            with one order of operations (kernels/reference/support.py); against exact numbers 2^-24 relative.
// Order      sums go along the order of the tokens, from the first on. Where top-k leaves more than `width` tokens, the sum over
//            all of them, which top-p takes its share of, is made otherwise: slot t of 1,024 adds up the w of ids t, t + 1024, ...
//            whose logits are above the k-th; the slots become one by halving (slot i plus slot i + 512, then i + 256, ...); and
//            the w of the k-th, as often as it belongs to them, is added.
// Layout     one block of 1,024 threads a row.
// Resources  about 25 KiB of shared memory, at most 64 registers, no spills.
// Method     the k-th largest logit by radix selection (11 + 11 + 10 bits of its ordered bits), lanes of equal digits adding up
//            before the histogram; ties at the border by the same selection over ids; then at most 1,024 candidates are put
//            in order by counting who precedes them.

#include "../common/exponential.h"
#include "common.cuh"

namespace volta {

constexpr int kThreads = 1024, kWidest = 1024, kBins = 2048;

template <typename T>
struct SupportArguments {
  int* tokens;
  int64 token_stride;
  float* probabilities;
  int64 probability_stride;
  int* counts;
  const T* logits;
  int64 row_stride;
  const float* temperature;
  const int* top_k;
  const float* top_p;
  const int* request_of_row;  // or null
  int vocabulary, width, requests;
};

// Bits in the order of the numbers, never 0 for a candidate; 0 for NaN and -infinity. Both zeros are one number.
__device__ __forceinline__ unsigned ordered_bits(float x) {
  if (!(x > -VOLTA_INFINITY)) return 0;
  const unsigned bits = __float_as_uint(x == 0.0f ? 0.0f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float number_of(unsigned ordered) {
  return __uint_as_float(ordered >> 31 ? ordered & 0x7fffffffu : ~ordered);
}

// The want-th largest key: its bits, how many of its equals belong to the selection, how many there are, and how many keys.
struct Selected {
  unsigned key;
  int wanted, equal, total;
};

// Warp 0 finds the bin of the want-th largest key; each lane has 64 bins, lane 0 the highest.
__device__ __forceinline__ void find_bin(const unsigned* bins, int want, bool first, Selected* found) {
  constexpr int kOwn = kBins / 32;
  const int lane = threadIdx.x, top = kBins - 1 - lane * kOwn;
  int own = 0;
  for (int i = 0; i < kOwn; ++i) own += bins[top - i];
  int before = own;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, before, offset);
    if (lane >= offset) before += other;
  }
  const int total = __shfl_sync(0xffffffffu, before, 31);
  before -= own;
  want = min(want, total);
  if (first && lane == 0) found->total = total;
  if (before >= want || before + own < want) return;
  for (int i = 0; i < kOwn; ++i) {
    const int here = bins[top - i];
    if (before + here >= want) {
      found->key = top - i, found->wanted = want - before, found->equal = here;
      return;
    }
    before += here;
  }
}

// key_of(id) is 0 for what is no candidate. All threads get the result.
template <typename Key>
__device__ __forceinline__ Selected select(int count, int want, const Key& key_of, unsigned* bins) {
  __shared__ Selected found;
  const int widths[3] = {11, 11, 10};
  unsigned prefix = 0;
  int shift = 32, total = 0;
#pragma unroll
  for (int pass = 0; pass < 3; ++pass) {
    const int above = shift;
    shift -= widths[pass];
    for (int i = threadIdx.x; i < kBins; i += kThreads) bins[i] = 0;
    __syncthreads();
    for (int base = 0; base < count; base += kThreads) {
      const int id = base + threadIdx.x;
      const unsigned key = id < count ? key_of(id) : 0;
      const bool mine = key != 0 && static_cast<unsigned>(static_cast<unsigned long long>(key) >> above) == prefix;
      const unsigned digit = (key >> shift) & ((1u << widths[pass]) - 1);
      const unsigned peers = __match_any_sync(0xffffffffu, mine ? digit : 0xffffffffu);
      if (mine && threadIdx.x % 32 == __ffs(peers) - 1) atomicAdd(&bins[digit], __popc(peers));
    }
    __syncthreads();
    if (threadIdx.x < 32) find_bin(bins, want, pass == 0, &found);
    __syncthreads();
    if (pass == 0) total = found.total;
    if (total == 0) return {0, 0, 0, 0};
    prefix = prefix << widths[pass] | found.key;
    want = found.wanted;
  }
  return {prefix, found.wanted, found.equal, total};
}

// What a block shares. `bins` later hold the keys and ids in order.
struct Workspace {
  unsigned bins[kBins];
  unsigned keys[kWidest];
  int ids[kWidest];
  double weights[kWidest];
  int found, kept;
  double sum;
};

// Candidates from `border` on (ties by their ids), in order: larger first, then the lower id.
template <typename Key>
__device__ __forceinline__ void collect(
    const Key& key_of, int count, unsigned border, unsigned lowest_tie, int size, Workspace& work) {
  if (threadIdx.x == 0) work.found = 0;
  __syncthreads();
  for (int id = threadIdx.x; id < count; id += kThreads) {
    const unsigned key = key_of(id);
    if (key < border || (key == border && ~static_cast<unsigned>(id) < lowest_tie)) continue;
    const int at = atomicAdd(&work.found, 1);
    work.keys[at] = key, work.ids[at] = id;
  }
  __syncthreads();
  const int i = threadIdx.x;
  if (i < size) {
    int rank = 0;
    for (int j = 0; j < size; ++j)
      rank += work.keys[j] > work.keys[i] || (work.keys[j] == work.keys[i] && work.ids[j] < work.ids[i]);
    work.bins[rank] = work.keys[i], work.bins[kWidest + rank] = work.ids[i];
  }
  __syncthreads();
}

// x of ordered bits, and the weight of an x.
__device__ __forceinline__ float scaled(unsigned key, float temperature) { return __fdiv_rn(number_of(key), temperature); }
__device__ __forceinline__ double weight_of(float x, float largest) {
  return x == largest ? 1.0 : exponential(plus(x, -static_cast<double>(largest)));
}

// The sum of w over what top-k leaves, when that is more than there is room for.
template <typename Key>
__device__ __forceinline__ double mass(
    const Key& key_of, int count, const Selected& border, float temperature, float largest, double* slots) {
  double own = 0.0;
  for (int id = threadIdx.x; id < count; id += kThreads)
    if (const unsigned key = key_of(id); key > border.key) own = plus(own, weight_of(scaled(key, temperature), largest));
  slots[threadIdx.x] = own;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) slots[threadIdx.x] = plus(slots[threadIdx.x], slots[threadIdx.x + half]);
  }
  __syncthreads();
  const double sum = slots[0];
  __syncthreads();
  return plus(sum, times(border.wanted, weight_of(scaled(border.key, temperature), largest)));
}

// Leaves in work.kept how many of the ordered weights top-p keeps, and in work.sum their sum. `total` is the sum of all that
// top-k leaves, or negative when these `size` are all. kept becomes -1 if what top-p keeps goes on behind them.
__device__ __forceinline__ void cut(int size, float top_p, double total, Workspace& work) {
  const bool limited = top_p < 1.0f, all = total < 0.0;
  double before = 0.0;
  if (limited && all) {
    total = 0.0;
    for (int i = 0; i < size; ++i) total = plus(total, work.weights[i]);
  }
  const double limit = times(top_p, total);
  int kept = 0;
  while (kept < size && (kept == 0 || !limited || before < limit)) before = plus(before, work.weights[kept++]);
  work.kept = !all && (!limited || before < limit) ? -1 : kept;
  work.sum = before;
}

template <typename T>
__device__ __forceinline__ void finish(const SupportArguments<T>& a, int64 row, int count) {
  for (int i = max(count, 0) + threadIdx.x; i < a.width; i += kThreads)
    a.tokens[row * a.token_stride + i] = -1, a.probabilities[row * a.probability_stride + i] = 0.0f;
  if (threadIdx.x == 0) a.counts[row] = count;
}

template <typename T>
__device__ __forceinline__ void support(const SupportArguments<T>& a, Workspace& work) {
  const int64 row = blockIdx.x;
  const int request = a.request_of_row == nullptr ? static_cast<int>(row) : a.request_of_row[row];
  if (request < 0 || request >= a.requests) return finish(a, row, 0);
  const bool greedy = !(a.temperature[request] > 0.0f);
  const float temperature = greedy ? 1.0f : a.temperature[request], top_p = a.top_p[request];
  const int k = greedy ? 1 : a.top_k[request] <= 0 ? a.vocabulary : a.top_k[request];
  const T* logits = a.logits + row * a.row_stride;
  const auto key_of = [logits](int id) { return ordered_bits(to_float(logits[id])); };
  const Selected all = select(a.vocabulary, k, key_of, work.bins);
  Selected border = all;
  int size = min(k, all.total);
  const bool fits = size <= a.width;
  if (size == 0 || (!fits && !(top_p < 1.0f))) return finish(a, row, size == 0 ? 0 : -1);
  if (!fits) {
    __syncthreads();
    border = select(a.vocabulary, size = a.width, key_of, work.bins);
  }
  unsigned lowest_tie = 0;
  if (border.wanted < border.equal) {
    const auto tie = [&](int id) { return key_of(id) == border.key ? ~static_cast<unsigned>(id) : 0u; };
    __syncthreads();
    lowest_tie = select(a.vocabulary, border.wanted, tie, work.bins).key;
  }
  __syncthreads();
  collect(key_of, a.vocabulary, border.key, lowest_tie, size, work);
  const int i = threadIdx.x;
  const float largest = scaled(work.bins[0], temperature);
  const double total = fits ? -1.0 : mass(key_of, a.vocabulary, all, temperature, largest, work.weights);
  if (i < size) work.weights[i] = weight_of(scaled(work.bins[i], temperature), largest);
  __syncthreads();
  if (i == 0) cut(size, top_p, total, work);
  __syncthreads();
  if (i < work.kept) {
    const int id = work.bins[kWidest + i];
    int at = 0;
    for (int j = 0; j < work.kept; ++j) at += static_cast<int>(work.bins[kWidest + j]) < id;
    a.tokens[row * a.token_stride + at] = id;
    a.probabilities[row * a.probability_stride + at] = static_cast<float>(__ddiv_rn(work.weights[i], work.sum));
  }
  finish(a, row, work.kept);
}

}  // namespace volta

#define VOLTA_SUPPORT(types, T)                                                          \
  extern "C" __global__ void __launch_bounds__(1024)                                     \
      topk_topp_support_##types##_rows_sm70(volta::SupportArguments<T> a) {              \
    __shared__ volta::Workspace work;                                                    \
    volta::support<T>(a, work);                                                          \
  }

VOLTA_SUPPORT(f16_f32, __half)
VOLTA_SUPPORT(f32_f32, float)
