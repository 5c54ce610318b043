// weak_ref_tensor and get_cuda_view_from_cpu_tensor: second tensors over memory that is there already. No kernel runs.
//
//   weak_ref_tensor                 the same bytes, sizes and strides; does not keep them alive
//   get_cuda_view_from_cpu_tensor   a CUDA tensor over pinned host memory; keeps the CPU tensor alive. Of memory that is not
//                                   pinned, a pinned copy made now, as upstream does: later writes to one do not reach the other
//
// Who ends the life of a view: torch 2.11 and newer have torch_from_blob, which calls a function when the last tensor over the
// memory is gone. The stable ABI of torch 2.10 tells nobody, so there the CPU tensor stays until the process ends. An
// engine makes its views once, while it starts.
#include <torch/csrc/stable/library.h>

#include <array>
#include <memory>

#include "driver.h"
#include "dynamic_loading.h"
#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// What a tensor is made of, in the stable ABI's own terms, so that every dtype passes.
struct Layout {
  void* data = nullptr;
  std::int64_t dim = 0;
  std::int64_t *sizes = nullptr, *strides = nullptr;
  std::int32_t dtype = 0, device_type = 0, device = 0;

  bool empty() const {
    for (std::int64_t i = 0; i < dim; ++i)
      if (sizes[i] == 0) return true;
    return false;
  }
};

Layout layout_of(const Tensor& tensor) {
  Layout x;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(tensor.get(), &x.data));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(tensor.get(), &x.dim));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(tensor.get(), &x.sizes));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(tensor.get(), &x.strides));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &x.dtype));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &x.device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(tensor.get(), &x.device));
  return x;
}

Tensor empty_like(const Layout& x) {
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_empty_strided(x.dim, x.sizes, x.strides, x.dtype, x.device_type, x.device, &made));
  return Tensor(made);
}

// A tensor over x.data that owns nothing.
Tensor over(const Layout& x) {
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_create_tensor_from_blob_v2(
      x.data, x.dim, x.sizes, x.strides, 0, x.dtype, x.device_type, x.device, &made, aoti_torch_layout_strided(), nullptr, 0));
  return Tensor(made);
}

using FromBlob = AOTITorchError (*)(
    void*, std::int64_t, const std::int64_t*, const std::int64_t*, std::int64_t, std::int32_t, std::int32_t, std::int32_t,
    AtenTensorHandle*, std::int32_t, const std::uint8_t*, std::int64_t, void (*)(void*, void*), void*);

// torch_from_blob, or null in torch 2.10.
FromBlob from_blob() {
  static const auto found = [] {
    void* library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<FromBlob>(dlsym(library == nullptr ? RTLD_DEFAULT : library, "torch_from_blob"));
  }();
  return found;
}

// A tensor over x.data that keeps `owner` alive.
Tensor over(const Layout& x, const Tensor& owner) {
  auto kept = std::make_unique<Tensor>(owner);
  if (from_blob() == nullptr) {
    Tensor made = over(x);
    kept.release();  // on purpose: nobody tells when the view is gone
    return made;
  }
  const auto let_go = [](void*, void* tensor) { delete static_cast<Tensor*>(tensor); };
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(from_blob()(
      x.data, x.dim, x.sizes, x.strides, 0, x.dtype, x.device_type, x.device, &made, aoti_torch_layout_strided(), nullptr, 0,
      let_go, kept.get()));
  kept.release();
  return Tensor(made);
}

Tensor pinned_copy(const Tensor& tensor) {
  std::array<StableIValue, 2> stack{torch::stable::detail::from(tensor), torch::stable::detail::from(std::nullopt)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::pin_memory", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

}  // namespace

Tensor weak_ref_tensor(const Tensor& input) {
  const Layout x = layout_of(input);
  return x.empty() ? empty_like(x) : over(x);
}

Tensor get_cuda_view_from_cpu_tensor(const Tensor& cpu_tensor) {
  const Checker check("get_cuda_view_from_cpu_tensor");
  Layout x = layout_of(cpu_tensor);
  check.that(x.device_type == aoti_torch_device_type_cpu(), "cpu_tensor must be on the CPU");
  need_driver();  // says what is missing where there is no GPU
  std::int32_t current = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_device_index(&current));
  Tensor owner = cpu_tensor;
  if (x.empty()) {
    x.device_type = aoti_torch_device_type_cuda(), x.device = current;
    return empty_like(x);
  }
  PinnedPlace place = pinned_place(current, x.data);
  if (place.address == nullptr) {
    owner = pinned_copy(cpu_tensor);
    x = layout_of(owner);
    place = pinned_place(current, x.data);
    check.that(place.address != nullptr, "the driver gives no device address for the pinned copy of cpu_tensor");
  }
  x.data = place.address, x.device_type = aoti_torch_device_type_cuda(), x.device = place.device;
  return over(x, owner);
}

}  // namespace volta
