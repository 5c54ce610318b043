#include "driver.h"

#include <cuda.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "container.h"
#include "dynamic_loading.h"

namespace volta {
namespace {

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error("volta: " + text); }

// The driver functions that are used, by their versioned names.
struct Driver {
  decltype(&cuInit) init;
  decltype(&cuGetErrorName) error_name;
  decltype(&cuGetErrorString) error_string;
  decltype(&cuDeviceGet) device_get;
  decltype(&cuDeviceGetAttribute) device_attribute;
  decltype(&cuDevicePrimaryCtxRetain) retain_context;
  decltype(&cuCtxGetCurrent) current_context;
  decltype(&cuCtxPushCurrent) push_context;
  decltype(&cuCtxPopCurrent) pop_context;
  decltype(&cuModuleLoadDataEx) load_module;
  decltype(&cuModuleGetFunction) get_function;
  decltype(&cuLaunchKernel) launch_kernel;
  decltype(&cuThreadExchangeStreamCaptureMode) exchange_capture_mode;
  decltype(&cuMemHostGetDevicePointer) host_address;
  decltype(&cuPointerGetAttribute) pointer_attribute;
  decltype(&cuMemcpyAsync) copy;
  decltype(&cuMemcpyBatchAsync) copy_batch;  // null in drivers before CUDA 12.8

  void check(CUresult status, const std::string& doing) const {
    if (status == CUDA_SUCCESS) return;
    const char *name = "unknown error", *text = "";
    error_name(status, &name);
    error_string(status, &text);
    fail(doing + " failed: " + name + " (" + text + ")");
  }
};

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail(std::string("the NVIDIA driver is too old: libcuda.so.1 has no ") + name);
}

Driver open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    fail(std::string("no NVIDIA driver on this machine: ") + (reason == nullptr ? "libcuda.so.1" : reason));
  }
  Driver driver{};
  find(library, "cuInit", driver.init);
  find(library, "cuGetErrorName", driver.error_name);
  find(library, "cuGetErrorString", driver.error_string);
  find(library, "cuDeviceGet", driver.device_get);
  find(library, "cuDeviceGetAttribute", driver.device_attribute);
  find(library, "cuDevicePrimaryCtxRetain", driver.retain_context);
  find(library, "cuCtxGetCurrent", driver.current_context);
  find(library, "cuCtxPushCurrent_v2", driver.push_context);
  find(library, "cuCtxPopCurrent_v2", driver.pop_context);
  find(library, "cuModuleLoadDataEx", driver.load_module);
  find(library, "cuModuleGetFunction", driver.get_function);
  find(library, "cuLaunchKernel", driver.launch_kernel);
  find(library, "cuThreadExchangeStreamCaptureMode", driver.exchange_capture_mode);
  find(library, "cuMemHostGetDevicePointer_v2", driver.host_address);
  find(library, "cuPointerGetAttribute", driver.pointer_attribute);
  find(library, "cuMemcpyAsync", driver.copy);
  driver.copy_batch = reinterpret_cast<decltype(driver.copy_batch)>(dlsym(library, "cuMemcpyBatchAsync"));
  driver.check(driver.init(0), "cuInit");
  return driver;
}

const Driver& driver() {
  static const Driver opened = open_driver();
  return opened;
}

// torch's current stream. libtorch_cuda is not linked, so that a CPU build of torch can load this library.
CUstream current_stream(int device) {
  using Get = int (*)(int, void**);
  static const Get get = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    auto found = reinterpret_cast<Get>(
        dlsym(library == nullptr ? RTLD_DEFAULT : library, "aoti_torch_get_current_cuda_stream"));
    if (found == nullptr) fail("this torch has no CUDA support: aoti_torch_get_current_cuda_stream is missing");
    return found;
  }();
  void* stream = nullptr;
  if (get(device, &stream) != 0) fail("torch has no current stream for cuda:" + std::to_string(device));
  return static_cast<CUstream>(stream);
}

// One GPU: its primary context, the kind of code it takes, and the modules loaded so far.
struct Device {
  CUcontext context = nullptr;
  bool native = false;  // sm_70: takes the cubin; newer ones compile the PTX
  std::string name;
  std::map<std::string, CUmodule> modules;
};

std::mutex device_mutex;
std::atomic<Device*> devices[kMaxDevices];

Device& open_device(int index) {
  if (index < 0 || index >= kMaxDevices) fail("no such device: cuda:" + std::to_string(index));
  if (Device* known = devices[index].load(std::memory_order_acquire)) return *known;
  const std::lock_guard<std::mutex> lock(device_mutex);
  if (Device* known = devices[index].load(std::memory_order_relaxed)) return *known;
  const Driver& cuda = driver();
  CUdevice handle = 0;
  int major = 0, minor = 0;
  cuda.check(cuda.device_get(&handle, index), "cuDeviceGet");
  cuda.check(
      cuda.device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle), "cuDeviceGetAttribute");
  cuda.check(
      cuda.device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle), "cuDeviceGetAttribute");
  const std::string name =
      "cuda:" + std::to_string(index) + " (compute capability " + std::to_string(major) + "." + std::to_string(minor) + ")";
  if (major < 7) fail(name + " is older than 7.0, the oldest GPU that these kernels run on");
  auto* device = new Device{nullptr, major == 7 && minor == 0, name, {}};  // lives as long as the process
  cuda.check(cuda.retain_context(&device->context, handle), "cuDevicePrimaryCtxRetain");
  devices[index].store(device, std::memory_order_release);
  return *device;
}

// Makes a context current while it lives, unless it is already.
class CurrentContext {
 public:
  CurrentContext(const Driver& cuda, CUcontext context) : cuda_(cuda) {
    CUcontext current = nullptr;
    cuda.check(cuda.current_context(&current), "cuCtxGetCurrent");
    if (current == context) return;
    cuda.check(cuda.push_context(context), "cuCtxPushCurrent");
    pushed_ = true;
  }
  ~CurrentContext() {
    CUcontext ignored = nullptr;
    if (pushed_) cuda_.pop_context(&ignored);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& cuda_;
  bool pushed_ = false;
};

// Lets this thread load code while one of its streams is being captured into a graph.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& cuda) : cuda_(cuda) { cuda_.exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { cuda_.exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& cuda_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// Needs device_mutex and the device's context.
CUmodule load_module(const Driver& cuda, Device& device, const std::string& name) {
  const auto known = device.modules.find(name);
  if (known != device.modules.end()) return known->second;
  char log[4096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  const auto code = device_code(name, device.native ? CodeKind::kCubin : CodeKind::kPtx);
  CUmodule module = nullptr;
  const RelaxedCapture relaxed(cuda);
  const CUresult status = cuda.load_module(&module, code.data(), 2, options, values);
  cuda.check(status, "loading " + name + " on " + device.name + (log[0] == 0 ? "" : std::string(" [") + log + "]"));
  device.modules.emplace(name, module);
  return module;
}

CUfunction load_function(const Driver& cuda, Device& device, int index, Kernel& kernel) {
  const std::lock_guard<std::mutex> lock(device_mutex);
  CUfunction function = nullptr;
  const CUmodule module = load_module(cuda, device, kernel.module);
  cuda.check(cuda.get_function(&function, module, kernel.function), std::string("finding ") + kernel.function);
  kernel.loaded[index].store(function, std::memory_order_release);
  return function;
}

}  // namespace

void launch_bytes(Kernel& kernel, int index, const Shape& shape, const void* argument) {
  Device& device = open_device(index);
  const Driver& cuda = driver();
  const CurrentContext current(cuda, device.context);
  CUfunction function = kernel.loaded[index].load(std::memory_order_acquire);
  if (function == nullptr) function = load_function(cuda, device, index, kernel);
  void* arguments[] = {const_cast<void*>(argument)};
  const CUresult status = cuda.launch_kernel(
      function, shape.grid_x, shape.grid_y, 1, shape.block_x, shape.block_y, 1, 0, current_stream(index), arguments, nullptr);
  cuda.check(status, std::string("launching ") + kernel.function);
}

void need_driver() { driver(); }

bool has_driver() {
  static const bool found = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr;
  return found;
}

void copy_async(int index, const Copies& copies) {
  Device& device = open_device(index);
  const Driver& cuda = driver();
  const CurrentContext current(cuda, device.context);
  const CUstream stream = current_stream(index);
  const auto address = [](const std::int64_t* list) {
    return reinterpret_cast<CUdeviceptr*>(const_cast<std::int64_t*>(list));
  };
  static_assert(sizeof(CUdeviceptr) == sizeof(std::int64_t) && sizeof(size_t) == sizeof(std::int64_t));
  CUdeviceptr *to = address(copies.to), *from = address(copies.from);
  auto* bytes = reinterpret_cast<size_t*>(const_cast<std::int64_t*>(copies.bytes));
  if (cuda.copy_batch != nullptr && stream != nullptr && stream != CU_STREAM_LEGACY) {
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = copies.any_order ? CU_MEMCPY_SRC_ACCESS_ORDER_ANY : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t first = 0, failed = 0;
    const CUresult status = cuda.copy_batch(
        to, from, bytes, static_cast<size_t>(copies.count), &attributes, &first, 1, &failed, stream);
    return cuda.check(status, "cuMemcpyBatchAsync (copy " + std::to_string(failed) + ")");
  }
  for (std::int64_t i = 0; i < copies.count; ++i)
    cuda.check(cuda.copy(to[i], from[i], bytes[i], stream), "cuMemcpyAsync");
}

PinnedPlace pinned_place(int index, void* host) {
  Device& device = open_device(index);
  const Driver& cuda = driver();
  const CurrentContext current(cuda, device.context);
  CUdeviceptr address = 0;
  const CUresult status = cuda.host_address(&address, host, 0);
  if (status == CUDA_ERROR_INVALID_VALUE || status == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) return {};
  cuda.check(status, "cuMemHostGetDevicePointer");
  int owner = index;
  cuda.check(
      cuda.pointer_attribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), "cuPointerGetAttribute");
  return {reinterpret_cast<void*>(address), owner};
}

void prepare(int index) {
  Device& device = open_device(index);
  const Driver& cuda = driver();
  const CurrentContext current(cuda, device.context);
  const std::lock_guard<std::mutex> lock(device_mutex);
  for (const std::string& name : device_code_names(CodeKind::kCubin)) load_module(cuda, device, name);
}

}  // namespace volta
