#include "tensor.h"

#include <limits>
#include <stdexcept>

namespace volta {
namespace {

const char* dtype_name(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half: return "float16";
    case ScalarType::Float: return "float32";
    case ScalarType::Double: return "float64";
    case ScalarType::BFloat16: return "bfloat16";
    case ScalarType::Byte: return "uint8";
    case ScalarType::Bool: return "bool";
    case ScalarType::Int: return "int32";
    case ScalarType::UInt32: return "uint32";
    case ScalarType::Long: return "int64";
    case ScalarType::Float8_e4m3fn: return "float8_e4m3fn";
    case ScalarType::Float8_e5m2: return "float8_e5m2";
    default: return "another type";
  }
}

std::string device_name(int device) { return device < 0 ? "the CPU" : "cuda:" + std::to_string(device); }

}  // namespace

std::int64_t View::numel() const {
  std::int64_t count = 1;
  for (int i = 0; i < dim; ++i) count *= sizes[i];
  return count;
}

void Checker::fail(const std::string& text) const { throw std::runtime_error(std::string("volta::") + op_ + ": " + text); }

View Checker::view(const Tensor& tensor, const char* name) const {
  void* data = nullptr;
  std::int64_t dim = 0;
  std::int64_t *sizes = nullptr, *strides = nullptr;
  std::int32_t type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &type));
  const bool cuda = type == aoti_torch_device_type_cuda();
  if (!cuda && type != aoti_torch_device_type_cpu()) fail(std::string(name) + " is neither on the CPU nor on a CUDA device");
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(tensor.get(), &data));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(tensor.get(), &dim));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(tensor.get(), &sizes));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(tensor.get(), &strides));
  return {name, static_cast<char*>(data), static_cast<int>(dim), sizes, strides, tensor.scalar_type(),
          cuda ? tensor.get_device_index() : -1};
}

std::optional<View> Checker::view(const std::optional<Tensor>& tensor, const char* name) const {
  if (!tensor.has_value()) return std::nullopt;
  return view(*tensor, name);
}

void Checker::dtype(const View& view, ScalarType wanted) const {
  if (view.dtype != wanted)
    fail(std::string(view.name) + " must be " + dtype_name(wanted) + ", not " + dtype_name(view.dtype));
}

void Checker::float_type(const View& view) const {
  if (view.dtype != ScalarType::Half && view.dtype != ScalarType::Float)
    fail(std::string(view.name) + " must be float16 or float32, not " + dtype_name(view.dtype));
}

void Checker::dim(const View& view, int wanted) const {
  if (view.dim != wanted)
    fail(std::string(view.name) + " must have " + std::to_string(wanted) + " dimensions, not " + std::to_string(view.dim));
}

void Checker::size(const View& view, int i, std::int64_t wanted) const {
  if (view.size(i) != wanted)
    fail(std::string(view.name) + ".size(" + std::to_string(i) + ") must be " + std::to_string(wanted) + ", not " +
         std::to_string(view.size(i)));
}

void Checker::same_device(const View& view, const View& as) const {
  if (view.device != as.device)
    fail(std::string(view.name) + " is on " + device_name(view.device) + " but " + as.name + " is on " + device_name(as.device));
}

void Checker::same_sizes(const View& view, const View& as) const {
  dim(view, as.dim);
  for (int i = 0; i < as.dim; ++i) size(view, i, as.sizes[i]);
  same_device(view, as);
}

void Checker::unit_stride(const View& view) const {
  if (view.dim == 0) fail(std::string(view.name) + " must have at least one dimension");
  if (view.size(-1) > 1 && view.stride(-1) != 1)
    fail(std::string(view.name) + " must have stride 1 in its last dimension, not " + std::to_string(view.stride(-1)));
}

void Checker::contiguous(const View& view) const {
  if (view.numel() == 0) return;
  std::int64_t expected = 1;
  for (int i = view.dim - 1; i >= 0; --i) {
    if (view.sizes[i] > 1 && view.strides[i] != expected) fail(std::string(view.name) + " must be contiguous");
    expected *= view.sizes[i];
  }
}

void Checker::shaped(
    const View& view, ScalarType wanted, std::initializer_list<std::int64_t> sizes, const View& as) const {
  dtype(view, wanted);
  dim(view, static_cast<int>(sizes.size()));
  int i = 0;
  for (const std::int64_t wanted_size : sizes) size(view, i++, wanted_size);
  unit_stride(view);
  same_device(view, as);
}

int Checker::small(std::int64_t value, const char* what) const {
  if (value < 0 || value > std::numeric_limits<int>::max())
    fail(std::string(what) + " must be between 0 and 2147483647, not " + std::to_string(value));
  return static_cast<int>(value);
}

void Checker::vector(const View& view, ScalarType type, std::int64_t wanted, const View& as) const {
  dtype(view, type);
  dim(view, 1);
  size(view, 0, wanted);
  contiguous(view);
  same_device(view, as);
}

Ids Checker::ids(const View& view) const {
  const Ids ids = strided_ids(view);
  contiguous(view);
  return ids;
}

Ids Checker::strided_ids(const View& view) const {
  const bool wide = view.dtype == ScalarType::Long;
  if (!wide && view.dtype != ScalarType::Int && view.dtype != ScalarType::UInt32)
    fail(std::string(view.name) + " must be int32 or int64, not " + dtype_name(view.dtype));
  return {view.data, wide};
}

Rows Checker::rows(const View& view) const {
  unit_stride(view);
  std::int64_t sizes[2] = {1, 1}, strides[2] = {0, 0};
  int found = 0;  // groups, innermost first
  for (int i = view.dim - 2; i >= 0; --i) {
    if (view.sizes[i] == 1) continue;
    if (found > 0 && view.strides[i] == sizes[found - 1] * strides[found - 1]) {
      sizes[found - 1] *= view.sizes[i];
      continue;
    }
    if (found == 2) fail(std::string(view.name) + " has rows at more than two independent strides");
    sizes[found] = view.sizes[i];
    strides[found++] = view.strides[i];
  }
  if (found < 2) return {1, strides[0], 0};
  return {sizes[0], strides[1], strides[0]};
}

int element_size(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Bool:
    case ScalarType::Float8_e4m3fn:
    case ScalarType::Float8_e5m2: return 1;
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Short: return 2;
    case ScalarType::Float:
    case ScalarType::Int:
    case ScalarType::UInt32: return 4;
    case ScalarType::Double:
    case ScalarType::Long: return 8;
    default: return 0;
  }
}

bool packable(const View& view, int elements) {
  const int bytes = elements * element_size(view.dtype);
  if (reinterpret_cast<std::uintptr_t>(view.data) % bytes != 0) return false;
  for (int i = 0; i + 1 < view.dim; ++i)
    if (view.sizes[i] > 1 && view.strides[i] % elements != 0) return false;
  return true;
}

Shape tile(std::int64_t tokens, std::int64_t items) {
  Shape shape;
  unsigned width = 8;
  while (2 * width < items && width < 256) width *= 2;  // two items a thread, so that their loads overlap
  shape.block_x = width;
  shape.block_y = static_cast<unsigned>(256 / width);
  shape.grid_x = static_cast<unsigned>((tokens + shape.block_y - 1) / shape.block_y);
  return shape;
}

Shape row_tile(std::int64_t rows, std::int64_t packs) {
  Shape shape;
  shape.block_x = static_cast<unsigned>(packs < 1 ? 1 : packs < kThreadsOfRows ? packs : kThreadsOfRows);
  shape.block_y = kThreadsOfRows / shape.block_x;
  shape.grid_x = static_cast<unsigned>((rows + shape.block_y - 1) / shape.block_y);
  return shape;
}

}  // namespace volta
