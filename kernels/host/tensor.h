// What the operators read from a tensor, and the checks that end in a clear sentence.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "../common/ids.h"
#include "../common/rows.h"
#include "driver.h"

namespace volta {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// A tensor's facts, read once: each getter of the stable ABI is a call into torch.
struct View {
  const char* name;
  char* data;
  int dim;
  const std::int64_t* sizes;
  const std::int64_t* strides;
  ScalarType dtype;
  int device;  // -1 on the CPU

  std::int64_t size(int i) const { return sizes[i < 0 ? dim + i : i]; }
  std::int64_t stride(int i) const { return strides[i < 0 ? dim + i : i]; }
  std::int64_t numel() const;
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// Builds the sentence "OPERATOR: NAME ..." when a check fails.
class Checker {
 public:
  explicit Checker(const char* op) : op_(op) {}

  [[noreturn]] void fail(const std::string& text) const;
  void that(bool holds, const char* text) const {
    if (!holds) fail(text);
  }
  View view(const Tensor& tensor, const char* name) const;
  std::optional<View> view(const std::optional<Tensor>& tensor, const char* name) const;

  void dtype(const View& view, ScalarType wanted) const;
  void float_type(const View& view) const;  // float16 or float32
  void dim(const View& view, int wanted) const;
  void size(const View& view, int i, std::int64_t wanted) const;
  void same_device(const View& view, const View& as) const;
  void same_sizes(const View& view, const View& as) const;  // and on the same device
  void unit_stride(const View& view) const;  // last dimension
  void contiguous(const View& view) const;
  // A tensor of this type and these sizes, on the same device, with unit stride in its last dimension.
  void shaped(const View& view, ScalarType dtype, std::initializer_list<std::int64_t> sizes, const View& as) const;
  int small(std::int64_t value, const char* what) const;  // fits an int

  // `size` numbers of a type, one after the other, on the device of `as`.
  void vector(const View& view, ScalarType type, std::int64_t size, const View& as) const;

  // A tensor of int32, uint32 or int64; `ids` wants it contiguous, as one list.
  Ids ids(const View& view) const;
  Ids strided_ids(const View& view) const;

  // The leading dimensions collapsed to at most two; the last one must have unit stride.
  Rows rows(const View& view) const;

 private:
  const char* op_;
};

// Rows of a view: product of the sizes before the last.
inline std::int64_t row_count(const View& view) {
  std::int64_t count = 1;
  for (int i = 0; i + 1 < view.dim; ++i) count *= view.sizes[i];
  return count;
}

// Whether packs of `elements` elements can be moved at once: address and every stride but the last are multiples of it.
bool packable(const View& view, int elements);

// A launch of `items` items for each token, several tokens a block.
Shape tile(std::int64_t tokens, std::int64_t items);

// A launch of `rows` rows of threads of kThreadsOfRows threads a block, with `packs` packs a row.
Shape row_tile(std::int64_t rows, std::int64_t packs);

// Bytes of a number; 0 for a type that no operator takes.
int element_size(ScalarType dtype);

// Run body(begin, end) over parts of [0, count) on torch's CPU threads.
template <typename Body>
void parallel(std::int64_t count, std::int64_t grain, const Body& body) {
  const auto run = [](std::int64_t begin, std::int64_t end, void* context) {
    (*static_cast<const Body*>(context))(begin, end);
  };
  TORCH_ERROR_CODE_CHECK(
      torch_parallel_for(0, count, grain, run, const_cast<void*>(static_cast<const void*>(&body))));
}

}  // namespace volta
