// What every kernel file shares: 16-byte packs, conversions, reductions, and the macro that names an entry point.
#pragma once

#include <cuda_fp16.h>

#include "../common/ids.h"
#include "../common/rows.h"

namespace volta {

using int64 = long long;
using uint64 = unsigned long long;
using uint8 = unsigned char;

#define VOLTA_INFINITY __int_as_float(0x7f800000)
#define VOLTA_NAN __int_as_float(0x7fc00000)

// N consecutive elements, moved with one load or store (2 to 16 bytes).
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

template <typename T, int N>
__device__ __forceinline__ Pack<T, N> load(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

template <typename T, int N>
__device__ __forceinline__ void store(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) { return x; }
template <>
__device__ __forceinline__ __half from_float<__half>(float x) { return __float2half_rn(x); }

// Sum over aligned groups of `width` lanes (a power of two up to 32); every lane gets it. The order depends on width only.
__device__ __forceinline__ float group_sum(float x, int width) {
  for (int offset = width / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// Sum over a block of up to 32 whole warps; every thread gets it. The order depends on blockDim.x only.
__device__ __forceinline__ float block_sum(float x) {
  __shared__ float partial[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  x = group_sum(x, 32);
  if (warps == 1) return x;
  if (lane == 0) partial[warp] = x;
  __syncthreads();
  return group_sum(lane < warps ? partial[lane] : 0.0f, 32);
}

// Largest value over aligned groups of `width` lanes; every lane gets it. NaN counts only where all are NaN.
__device__ __forceinline__ float group_max(float x, int width) {
  for (int offset = width / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

__device__ __forceinline__ uint64 group_max(uint64 x, int width) {
  for (int offset = width / 2; offset > 0; offset /= 2) {
    const uint64 other = __shfl_xor_sync(0xffffffffu, x, offset);
    if (other > x) x = other;
  }
  return x;
}

// The token of a thread in a launch of (tokens / blockDim.y) blocks.
__device__ __forceinline__ int64 token_of_thread() {
  return static_cast<int64>(blockIdx.x) * blockDim.y + threadIdx.y;
}

}  // namespace volta
