// Kernels for the emulator's own tests: one that is right, and one for each fault that it must find.
#include <exception>
#include <string>

#include "driver.h"

struct Argument {
  int* out;
  long long unused[2];
};

extern "C" __global__ void adds_up(Argument a) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  int x = static_cast<int>(threadIdx.x) + 1;
  for (int by = 16; by > 0; by /= 2) x += __shfl_xor_sync(0xffffffffu, x, by);
  if (threadIdx.x % 32 == 0) atomicAdd(&sum, x);
  __syncthreads();
  if (threadIdx.x == 0) a.out[blockIdx.x] = sum;
}

extern "C" __global__ void misses_a_lane(Argument) {
  if (threadIdx.x == 3) return;
  __shfl_xor_sync(0xffffffffu, 1, 1);
}

extern "C" __global__ void parts_ways(Argument) {
  if (threadIdx.x < 16) __ballot_sync(0xffffffffu, true);
  else __shfl_xor_sync(0xffffffffu, 1, 1);
}

extern "C" __global__ void waits_for_ever(Argument) {
  if (threadIdx.x % 2 == 0) __syncthreads();
  else __ballot_sync(0xffffffffu, true);
}

extern "C" __global__ void reaches_between(Argument a) { *reinterpret_cast<long long*>(a.out + 1) = 0; }

extern "C" std::int32_t aoti_torch_device_type_cuda() { return 1; }

extern "C" const char* launch_faulty(const char* name, unsigned blocks, unsigned threads, int* out) {
  static std::string text;
  volta::Kernel kernel("faulty", name);
  const Argument argument{out, {}};
  volta::Shape shape;
  shape.grid_x = blocks;
  shape.block_x = threads;
  try {
    volta::launch(kernel, 0, shape, argument);
    return "";
  } catch (const std::exception& error) {
    text = error.what();
    return text.c_str();
  }
}
