// CUDA C++ for a CPU compiler: what kernels/cuda uses of it. Threads are fibers of one thread (emulator.cpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#define __CUDACC__ 1
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static  // blocks run one after the other; like the GPU's, this memory starts with what the last one left
#define __launch_bounds__(...)

using std::isinf;
using std::isnan;
using std::max;
using std::min;

namespace emulation {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};

// The thread that runs now, and where its block is.
struct Place {
  Dim thread, block, block_size, grid_size;
  int lane;
};
const Place& here();

enum Collective { kShuffle, kBallot, kMatch };

// Every lane of the warp must call these together; an error names a kernel in which they do not.
void give(std::uint64_t value, Collective what);  // lets the others of the warp see a value
std::uint64_t given_by(int lane);
void taken(Collective what);  // the value may be replaced
void wait_for_block();

template <typename To, typename From>
To bits(const From& from) {
  To to{};
  std::memcpy(&to, &from, std::min(sizeof to, sizeof from));
  return to;
}

inline void whole_warp(unsigned mask) {
  if (mask != 0xffffffffu) __builtin_trap();
}

template <typename T>
T shuffle(unsigned mask, T x, int from) {
  whole_warp(mask);
  give(bits<std::uint64_t>(x), kShuffle);
  const T result = bits<T>(given_by(from));
  taken(kShuffle);
  return result;
}

template <typename Holds>
unsigned vote(std::uint64_t value, Collective what, Holds holds) {
  give(value, what);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane) votes |= static_cast<unsigned>(holds(given_by(lane))) << lane;
  taken(what);
  return votes;
}

}  // namespace emulation

#define threadIdx (emulation::here().thread)
#define blockIdx (emulation::here().block)
#define blockDim (emulation::here().block_size)
#define gridDim (emulation::here().grid_size)

template <typename T>
T __shfl_sync(unsigned mask, T x, int from) { return emulation::shuffle(mask, x, from); }
template <typename T>
T __shfl_xor_sync(unsigned mask, T x, int by) { return emulation::shuffle(mask, x, emulation::here().lane ^ by); }
template <typename T>
T __shfl_up_sync(unsigned mask, T x, int by) {
  const int lane = emulation::here().lane;
  return emulation::shuffle(mask, x, lane < by ? lane : lane - by);
}
inline unsigned __ballot_sync(unsigned mask, bool mine) {
  emulation::whole_warp(mask);
  return emulation::vote(mine, emulation::kBallot, [](std::uint64_t value) { return value != 0; });
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T x) {
  emulation::whole_warp(mask);
  const auto mine = emulation::bits<std::uint64_t>(x);
  return emulation::vote(mine, emulation::kMatch, [mine](std::uint64_t value) { return value == mine; });
}
inline void __syncthreads() { emulation::wait_for_block(); }

template <typename T, typename By>
T atomicAdd(T* to, By x) {
  const T before = *to;
  *to = before + static_cast<T>(x);
  return before;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(static_cast<std::uint64_t>(x) * y >> 32); }
inline unsigned __float_as_uint(float x) { return emulation::bits<unsigned>(x); }
inline int __float_as_int(float x) { return emulation::bits<int>(x); }
inline float __uint_as_float(unsigned x) { return emulation::bits<float>(x); }
inline float __int_as_float(int x) { return emulation::bits<float>(x); }
inline double __longlong_as_double(long long x) { return emulation::bits<double>(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
