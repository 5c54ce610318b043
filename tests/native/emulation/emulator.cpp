// Runs kernels of kernels/cuda on the CPU, one block after the other, each thread a fiber that gives way where threads wait
// for one another. Takes the place of launch_bytes in kernels/host/driver.cpp.
//
// emulated_launches(true) only notes launches from then on, emulated_launch() tells the last one: "kernel threads blocks".
//
// Finds what a wrong kernel would do on a GPU, apart from races: a lane missing at a shuffle or a vote, lanes at different
// ones, threads that wait for each other for ever, a misaligned access, and, through the checks, every wrong result.
#include "device.h"
#undef blockIdx
#undef blockDim
#undef gridDim
#undef threadIdx

#include <dlfcn.h>
#include <ucontext.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "driver.h"

extern "C" {
std::int32_t aoti_torch_device_type_cuda();

// No GPU code is carried along: kernels/host/container.cpp reads a header that counts no entries.
extern const unsigned char volta_device_container[16] = {};

// tensor.cpp is compiled to ask these instead of torch: to the operators, every CPU tensor is on cuda:0.
int emulated_device_type(void*, std::int32_t* type) {
  *type = aoti_torch_device_type_cuda();
  return 0;
}
int emulated_device_index(void*, std::int32_t* index) {
  *index = 0;
  return 0;
}
}

namespace emulation {
namespace {

constexpr std::size_t kStack = 64 << 10;

struct Warp {
  std::uint64_t given[32] = {};
  int lanes = 0, arrived = 0, returned = 0, what = 0;
  unsigned turn = 0;
};

struct Fiber {
  Place place;
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(kStack);
  int number;
  bool done;
};

// x86-64 passes a structure of more than 16 bytes as a copy on the stack, however long it is, so a kernel can be called
// with one that is longer than its own argument.
struct Argument {
  char bytes[1024];
};
using Entry = void (*)(Argument);

std::vector<Fiber> fibers;
std::vector<Warp> warps;
Fiber* current;
ucontext_t scheduler;
Entry entry;
Argument argument;
int running, at_barrier;
unsigned barrier_turn;
bool moved;  // whether anything has changed since the last look at all fibers
const char* fault;
bool noting;
std::string noted;

void give_way() { swapcontext(&current->context, &scheduler); }

void run_thread() {
  entry(argument);
  current->done = moved = true;
  --running;
  ++warps[current->number / 32].returned;
  give_way();
}

void start(Fiber& fiber, int number, const Dim& block, const volta::Shape& shape) {
  const unsigned n = static_cast<unsigned>(number);
  fiber.place = {{n % shape.block_x, n / shape.block_x}, block, {shape.block_x, shape.block_y},
                 {shape.grid_x, shape.grid_y}, number % 32};
  fiber.number = number;
  fiber.done = false;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, run_thread, 0);
}

void run_block(const Dim& block, const volta::Shape& shape) {
  running = static_cast<int>(shape.block_x * shape.block_y);
  const int threads = running;
  warps.assign((threads + 31) / 32, Warp{});
  at_barrier = 0;
  for (int i = 0; i < threads; ++i) {
    start(fibers[i], i, block, shape);
    ++warps[i / 32].lanes;
  }
  while (running > 0) {
    moved = false;
    for (int i = 0; i < threads && fault == nullptr; ++i) {
      if (fibers[i].done) continue;
      current = &fibers[i];
      swapcontext(&scheduler, &current->context);
    }
    if (!moved && fault == nullptr) fault = "threads wait for each other";
    if (fault != nullptr) return;
  }
}

void wait_for_warp(int what) {
  Warp& warp = warps[current->number / 32];
  if (warp.lanes < 32) fault = "a shuffle or a vote in a warp that is not whole";
  if (warp.returned > 0) fault = "a lane has returned and is missing at a shuffle or a vote";
  if (warp.arrived > 0 && warp.what != what) fault = "lanes are at different shuffles or votes";
  warp.what = what;
  if (++warp.arrived == 32) {
    warp.arrived = 0;
    ++warp.turn;
    moved = true;
    return;
  }
  const unsigned turn = warp.turn;
  while (warp.turn == turn) give_way();
}

}  // namespace

const Place& here() { return current->place; }

std::uint64_t given_by(int lane) { return warps[current->number / 32].given[lane]; }

void give(std::uint64_t value, Collective what) {
  warps[current->number / 32].given[current->place.lane] = value;
  wait_for_warp(2 * what);
}

void taken(Collective what) { wait_for_warp(2 * what + 1); }

void wait_for_block() {
  const unsigned turn = barrier_turn;
  ++at_barrier;
  while (barrier_turn == turn) {
    if (at_barrier < running) {
      give_way();
      continue;
    }
    at_barrier = 0;
    ++barrier_turn;
    moved = true;
  }
}

void launch(const char* name, const volta::Shape& shape, const void* arguments) {
  static void* const self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&launch), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  const unsigned threads = shape.block_x * shape.block_y;
  const std::size_t blocks = std::size_t{shape.grid_x} * shape.grid_y;
  noted = std::string(name) + " " + std::to_string(threads) + " " + std::to_string(blocks);
  if (noting) return;
  entry = reinterpret_cast<Entry>(dlsym(self, name));
  if (entry == nullptr) throw std::runtime_error(std::string("no kernel ") + name);
  if (threads == 0 || threads > 1024 || shape.grid_x == 0 || shape.grid_y == 0 || shape.grid_y > 65535)
    throw std::runtime_error(std::string(name) + ": a GPU does not take this launch");
  std::memcpy(&argument, arguments, sizeof argument);
  if (fibers.size() < threads) fibers.resize(threads);
  fault = nullptr;
  for (unsigned y = 0; y < shape.grid_y && fault == nullptr; ++y)
    for (unsigned x = 0; x < shape.grid_x && fault == nullptr; ++x) run_block({x, y}, shape);
  if (fault != nullptr) throw std::runtime_error(std::string(name) + ": " + fault);
}

}  // namespace emulation

// Kernels are compiled to call this (-fsanitize=alignment) before they touch an address that is no multiple of their access.
extern "C" void __ubsan_handle_type_mismatch_v1(void*, std::uintptr_t) {
  emulation::fault = "a misaligned access";
  emulation::give_way();
}
extern "C" void emulated_launches(bool only_noted) { emulation::noting = only_noted; }
extern "C" const char* emulated_launch() { return emulation::noted.c_str(); }

namespace volta {

void launch_bytes(Kernel& kernel, int, const Shape& shape, const void* argument) {
  emulation::launch(kernel.function, shape, argument);
}

}  // namespace volta
