// swap_blocks and swap_blocks_batch: copies between the KV cache and host memory, by the driver. No kernel runs.
//
//   swap_blocks         block i of src, `block_size_in_bytes` long, to block j of dst, for each row (i, j) of block_mapping
//   swap_blocks_batch   sizes[n] bytes from address src_ptrs[n] to address dst_ptrs[n]; the addresses are the caller's word
//
// Copies go to torch's current stream, in any order among themselves. Without a driver both sides are host memory.
#include <cstring>
#include <vector>

#include "driver.h"
#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// Bytes from a tensor's first element to the end of its last one.
std::int64_t extent(const View& view) {
  std::int64_t last = 0;
  for (int i = 0; i < view.dim; ++i) {
    if (view.sizes[i] == 0) return 0;
    last += (view.sizes[i] - 1) * view.strides[i];
  }
  return (last + 1) * element_size(view.dtype);
}

void copy_here(const Copies& copies) {
  for (std::int64_t i = 0; i < copies.count; ++i)
    std::memcpy(
        reinterpret_cast<void*>(copies.to[i]), reinterpret_cast<const void*>(copies.from[i]),
        static_cast<std::size_t>(copies.bytes[i]));
}

// A list of int64 on the CPU.
const std::int64_t* numbers(const Checker& check, const View& view, std::int64_t count) {
  check.that(view.device < 0, (std::string(view.name) + " must be on the CPU").c_str());
  check.dtype(view, ScalarType::Long);
  check.dim(view, 1);
  check.size(view, 0, count);
  check.unit_stride(view);
  return view.as<const std::int64_t>();
}

}  // namespace

void swap_blocks(const Tensor& src_, const Tensor& dst_, std::int64_t block_size_in_bytes, const Tensor& block_mapping) {
  const Checker check("swap_blocks");
  const View src = check.view(src_, "src"), dst = check.view(dst_, "dst");
  const View mapping = check.view(block_mapping, "block_mapping");
  check.that(mapping.device < 0, "block_mapping must be on the CPU");
  check.dtype(mapping, ScalarType::Long);
  check.dim(mapping, 2);
  check.size(mapping, 1, 2);
  check.that(src.device < 0 || dst.device < 0 || src.device == dst.device, "src and dst must be on the same GPU");
  check.that(block_size_in_bytes > 0, "block_size_in_bytes must be positive");
  const std::int64_t count = mapping.size(0);
  if (count == 0) return;
  std::vector<std::int64_t> to(count), from(count), bytes(count, block_size_in_bytes);
  const auto place = [&](const View& view, std::int64_t row, int column) {
    const std::int64_t block = mapping.as<const std::int64_t>()[row * mapping.stride(0) + column * mapping.stride(1)];
    if (block < 0 || block >= extent(view) / block_size_in_bytes)
      check.fail(std::string(view.name) + " has no block " + std::to_string(block));
    return reinterpret_cast<std::int64_t>(view.data) + block * block_size_in_bytes;
  };
  for (std::int64_t i = 0; i < count; ++i) from[i] = place(src, i, 0), to[i] = place(dst, i, 1);
  const Copies copies{to.data(), from.data(), bytes.data(), count, false};
  const int device = src.device >= 0 ? src.device : dst.device;
  device < 0 ? copy_here(copies) : copy_async(device, copies);
}

void swap_blocks_batch(const Tensor& src_ptrs, const Tensor& dst_ptrs, const Tensor& sizes, bool is_src_access_order_any) {
  const Checker check("swap_blocks_batch");
  const View src = check.view(src_ptrs, "src_ptrs");
  check.dim(src, 1);
  const std::int64_t count = src.size(0);
  const Copies copies{numbers(check, check.view(dst_ptrs, "dst_ptrs"), count), numbers(check, src, count),
                      numbers(check, check.view(sizes, "sizes"), count), count, is_src_access_order_any};
  if (count == 0) return;
  if (!has_driver()) return copy_here(copies);
  std::int32_t current = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_device_index(&current));
  copy_async(current, copies);
}

}  // namespace volta
