// kv_cache_write and kv_cache_gather: checks, launch, and the CPU implementation. The contract is in kernels/cuda/kv_cache.cu.
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <cstring>

#include "../common/fast_divide.h"
#include "../common/fp8.h"
#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

using CpuHalf = c10::Half;

struct CacheStrides {
  long long block, position, head;
};

struct Side {
  void* cache;
  CacheStrides strides;
  void* dense;
  long long token_stride, head_stride;
  const float* scale;
  int items;
  FastDivide items_of_a_head;
};


// The arguments of the kernels, as in kv_cache.cu.
struct WriteArguments {
  Side sides[2];
  const long long* slots;
  long long tokens, total_slots;
  FastDivide block_size;
};

struct GatherArguments {
  Side sides[2];
  const int* block_table;
  const int* starts;
  const int* first_tokens;
  long long table_stride, tokens, blocks;
  FastDivide block_size;
  int requests, table_width;
};

// [float16, E4M3, E5M2] x [in packs, alone]
Kernel write_kernels[3][2] = {
    {{"kv_cache", "kv_cache_write_f16_f16_paged8_sm70"}, {"kv_cache", "kv_cache_write_f16_f16_paged1_sm70"}},
    {{"kv_cache", "kv_cache_write_f16_e4m3_paged8_sm70"}, {"kv_cache", "kv_cache_write_f16_e4m3_paged1_sm70"}},
    {{"kv_cache", "kv_cache_write_f16_e5m2_paged8_sm70"}, {"kv_cache", "kv_cache_write_f16_e5m2_paged1_sm70"}}};
Kernel gather_kernels[3][2] = {
    {{"kv_cache", "kv_cache_gather_f16_f16_paged8_sm70"}, {"kv_cache", "kv_cache_gather_f16_f16_paged1_sm70"}},
    {{"kv_cache", "kv_cache_gather_e4m3_f16_paged8_sm70"}, {"kv_cache", "kv_cache_gather_e4m3_f16_paged1_sm70"}},
    {{"kv_cache", "kv_cache_gather_e5m2_f16_paged8_sm70"}, {"kv_cache", "kv_cache_gather_e5m2_f16_paged1_sm70"}}};

int format_of(const Checker& check, const View& cache) {
  if (cache.dtype == ScalarType::Half) return 0;
  if (cache.dtype == ScalarType::Float8_e4m3fn) return 1;
  if (cache.dtype == ScalarType::Float8_e5m2) return 2;
  check.fail(
      std::string(cache.name) +
      " must be float16, float8_e4m3fn or float8_e5m2 (its type says the format: view a uint8 cache as one of them)");
}

// Checks one side: dense [tokens, heads, width] in float16, and its cache [blocks, block_size, heads, width].
Side side_of(const Checker& check, const View& dense, const View& cache, const View& scale) {
  check.dtype(dense, ScalarType::Half);
  check.dim(dense, 3);
  check.unit_stride(dense);
  check.dim(cache, 4);
  check.unit_stride(cache);
  check.same_device(cache, dense);
  check.size(cache, 2, dense.size(1));
  check.size(cache, 3, dense.size(2));
  check.dtype(scale, ScalarType::Float);
  check.same_device(scale, dense);
  check.that(scale.numel() == 1, "k_scale and v_scale must hold one number each");
  const std::int64_t elements = check.small(dense.size(1), "the number of heads") * dense.size(2);
  return {cache.data,
          {cache.stride(0), cache.stride(1), cache.stride(2)},
          dense.data,
          dense.stride(0),
          dense.stride(1),
          scale.as<const float>(),
          check.small(elements, "the elements of a token"),
          FastDivide(dense.size(2) == 0 ? 1 : static_cast<unsigned>(dense.size(2)))};
}

bool side_packable(const View& dense, const View& cache) {
  return dense.size(2) % 8 == 0 && packable(dense, 8) && packable(cache, 8);
}

// Launch over tokens and sides; in packs of eight where everything allows it.
template <typename Arguments>
void launch_sides(Kernel (&kernels)[2], int device, Arguments a, bool packed) {
  if (packed) {
    for (Side& side : a.sides) {
      side.items /= 8;
      side.items_of_a_head = FastDivide(std::max(1u, side.items_of_a_head.divisor / 8));
    }
  }
  Shape shape = tile(a.tokens, (std::max(a.sides[0].items, a.sides[1].items) + 1) / 2);  // four items a thread
  shape.grid_y = 2;
  launch(kernels[packed ? 0 : 1], device, shape, a);
}

template <typename F>
void write_row(const Side& side, std::int64_t token, std::int64_t block, std::int64_t position) {
  const int width = side.items_of_a_head.divisor, heads = side.items / width;
  for (int head = 0; head < heads; ++head) {
    const CpuHalf* from = static_cast<const CpuHalf*>(side.dense) + token * side.token_stride + head * side.head_stride;
    const std::int64_t at = block * side.strides.block + position * side.strides.position + head * side.strides.head;
    if constexpr (std::is_same_v<F, CpuHalf>) {
      std::memcpy(static_cast<CpuHalf*>(side.cache) + at, from, width * sizeof(CpuHalf));
    } else {
      unsigned char* to = static_cast<unsigned char*>(side.cache) + at;
      for (int i = 0; i < width; ++i) to[i] = F::encode(static_cast<float>(from[i]) / *side.scale);
    }
  }
}

template <typename F>
void write_on_cpu(const WriteArguments& a) {
  parallel(a.tokens, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const long long slot = a.slots[token];
      if (slot < 0 || slot >= a.total_slots) continue;
      const long long block_size = a.block_size.divisor;
      for (const Side& side : a.sides) write_row<F>(side, token, slot / block_size, slot % block_size);
    }
  });
}

template <typename F>
void read_row(const Side& side, std::int64_t token, std::int64_t block, std::int64_t position) {
  const int width = side.items_of_a_head.divisor, heads = side.items / width;
  for (int head = 0; head < heads; ++head) {
    CpuHalf* to = static_cast<CpuHalf*>(side.dense) + token * side.token_stride + head * side.head_stride;
    const std::int64_t at = block * side.strides.block + position * side.strides.position + head * side.strides.head;
    if (block < 0) {
      std::memset(to, 0, width * sizeof(CpuHalf));
    } else if constexpr (std::is_same_v<F, CpuHalf>) {
      std::memcpy(to, static_cast<const CpuHalf*>(side.cache) + at, width * sizeof(CpuHalf));
    } else {
      const unsigned char* from = static_cast<const unsigned char*>(side.cache) + at;
      for (int i = 0; i < width; ++i) to[i] = static_cast<CpuHalf>(F::decode(from[i]) * *side.scale);
    }
  }
}

template <typename F>
void gather_on_cpu(const GatherArguments& a) {
  for (int request = 0; request < a.requests; ++request) {
    const std::int64_t begin = a.starts[request] < 0 ? 0 : a.starts[request];
    const std::int64_t end = a.starts[request + 1] < a.tokens ? a.starts[request + 1] : a.tokens;
    const std::int64_t first = a.first_tokens == nullptr ? 0 : a.first_tokens[request];
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t block_size = a.block_size.divisor;
      const std::int64_t index = token - a.starts[request] + first, column = index / block_size;
      const bool listed = index >= 0 && column < a.table_width;
      const std::int64_t listed_block = listed ? a.block_table[request * a.table_stride + column] : -1;
      const std::int64_t block = listed_block < a.blocks ? listed_block : -1;
      for (const Side& side : a.sides) read_row<F>(side, token, block, index % block_size);
    }
  }
}

}  // namespace

void kv_cache_write(
    const Tensor& key_, const Tensor& value_, const Tensor& key_cache_, const Tensor& value_cache_, const Tensor& slots_,
    const Tensor& k_scale_, const Tensor& v_scale_) {
  const Checker check("kv_cache_write");
  const View key = check.view(key_, "key"), value = check.view(value_, "value");
  const View key_cache = check.view(key_cache_, "key_cache"), value_cache = check.view(value_cache_, "value_cache");
  const View slots = check.view(slots_, "slot_mapping");
  const int format = format_of(check, key_cache);
  check.dtype(value_cache, key_cache.dtype);
  WriteArguments a{};
  a.sides[0] = side_of(check, key, key_cache, check.view(k_scale_, "k_scale"));
  a.sides[1] = side_of(check, value, value_cache, check.view(v_scale_, "v_scale"));
  check.same_device(value, key);
  check.size(value_cache, 0, key_cache.size(0));
  check.size(value_cache, 1, key_cache.size(1));
  check.dtype(slots, ScalarType::Long);
  check.dim(slots, 1);
  check.unit_stride(slots);
  check.same_device(slots, key);
  a.tokens = check.small(slots.size(0), "the number of slots");
  check.that(
      key.size(0) >= a.tokens && value.size(0) >= a.tokens, "key and value must have a row for each slot of slot_mapping");
  a.slots = slots.as<const long long>();
  a.total_slots = key_cache.size(0) * key_cache.size(1);
  if (a.tokens == 0 || a.total_slots == 0) return;
  a.block_size = FastDivide(static_cast<unsigned>(check.small(key_cache.size(1), "the block size")));
  const bool packed = side_packable(key, key_cache) && side_packable(value, value_cache);
  if (key.device >= 0) return launch_sides(write_kernels[format], key.device, a, packed);
  format == 0 ? write_on_cpu<CpuHalf>(a) : format == 1 ? write_on_cpu<E4M3>(a) : write_on_cpu<E5M2>(a);
}

void kv_cache_gather(
    const Tensor& key_cache_, const Tensor& value_cache_, const Tensor& block_table_, const Tensor& cu_seq_lens_,
    const std::optional<Tensor>& seq_starts_, const Tensor& key_, const Tensor& value_, const Tensor& k_scale_,
    const Tensor& v_scale_) {
  const Checker check("kv_cache_gather");
  const View key = check.view(key_, "key"), value = check.view(value_, "value");
  const View key_cache = check.view(key_cache_, "key_cache"), value_cache = check.view(value_cache_, "value_cache");
  const View table = check.view(block_table_, "block_table"), starts = check.view(cu_seq_lens_, "cu_seq_lens");
  const std::optional<View> first = check.view(seq_starts_, "seq_starts");
  const int format = format_of(check, key_cache);
  check.dtype(value_cache, key_cache.dtype);
  GatherArguments a{};
  a.sides[0] = side_of(check, key, key_cache, check.view(k_scale_, "k_scale"));
  a.sides[1] = side_of(check, value, value_cache, check.view(v_scale_, "v_scale"));
  check.same_device(value, key);
  check.size(value, 0, key.size(0));
  check.size(value_cache, 0, key_cache.size(0));
  check.size(value_cache, 1, key_cache.size(1));
  for (const View* view : {&table, &starts}) {
    check.dtype(*view, ScalarType::Int);
    check.same_device(*view, key);
    check.unit_stride(*view);
  }
  check.dim(table, 2);
  check.dim(starts, 1);
  check.size(starts, 0, table.size(0) + 1);
  if (first.has_value()) {
    check.dtype(*first, ScalarType::Int);
    check.dim(*first, 1);
    check.size(*first, 0, table.size(0));
    check.unit_stride(*first);
    check.same_device(*first, key);
    a.first_tokens = first->as<const int>();
  }
  a.block_table = table.as<const int>(), a.starts = starts.as<const int>();
  a.table_stride = table.stride(0), a.tokens = check.small(key.size(0), "the number of tokens");
  a.blocks = key_cache.size(0);
  a.requests = check.small(table.size(0), "the number of requests");
  a.table_width = check.small(table.size(1), "the width of block_table");
  if (a.tokens == 0 || a.requests == 0) return;
  check.that(key_cache.size(1) > 0, "the block size must be positive");
  a.block_size = FastDivide(static_cast<unsigned>(check.small(key_cache.size(1), "the block size")));
  const bool packed = side_packable(key, key_cache) && side_packable(value, value_cache);
  if (key.device >= 0) return launch_sides(gather_kernels[format], key.device, a, packed);
  format == 0 ? gather_on_cpu<CpuHalf>(a) : format == 1 ? gather_on_cpu<E4M3>(a) : gather_on_cpu<E5M2>(a);
}

}  // namespace volta
