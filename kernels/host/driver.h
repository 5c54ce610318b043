// The CUDA driver, opened when the first kernel is launched, so that the library loads on machines without a GPU.
#pragma once

#include <atomic>
#include <cstdint>

struct CUfunc_st;

namespace volta {

constexpr int kMaxDevices = 64;

// One entry point of a kernel file. Meant to be a static object: it remembers the function of each device.
struct Kernel {
  const char* module;
  const char* function;
  std::atomic<CUfunc_st*> loaded[kMaxDevices] = {};

  constexpr Kernel(const char* module_name, const char* function_name) : module(module_name), function(function_name) {}
};

// Blocks and threads of a launch.
struct Shape {
  unsigned grid_x = 1, grid_y = 1;
  unsigned block_x = 1, block_y = 1;
};

// Launch on torch's current stream of the device, with one argument passed by value. Works during graph capture.
// Throws std::runtime_error with the driver's words.
void launch_bytes(Kernel& kernel, int device, const Shape& shape, const void* argument);

template <typename Argument>
void launch(Kernel& kernel, int device, const Shape& shape, const Argument& argument) {
  launch_bytes(kernel, device, shape, &argument);
}

// Opens the driver. Throws std::runtime_error that says what is missing.
void need_driver();

// Whether the machine has a driver at all.
bool has_driver();

// Copies of bytes[i] bytes between addresses, each of the device or of host memory. any_order: nothing is writing to the
// sources, so that they may be read before earlier work of the stream is done.
struct Copies {
  const std::int64_t *to, *from, *bytes;
  std::int64_t count;
  bool any_order;
};

// On torch's current stream of the device; in one call where the driver can (CUDA 12.8) and the stream is not the default one.
void copy_async(int device, const Copies& copies);

// Where a GPU sees host memory that is pinned or registered, and the GPU it belongs to; null for any other host memory.
struct PinnedPlace {
  void* address = nullptr;
  int device = -1;
};
PinnedPlace pinned_place(int device, void* host);

// Load every kernel file for the device now, so that no later call pays for it.
void prepare(int device);

}  // namespace volta
