// kv_cache_write, reshape_and_cache_flash and reshape_and_cache: checks, launch, and the CPU implementation.
#include <torch/headeronly/util/Half.h>

#include <type_traits>

#include "../common/fp8.h"
#include "kv_cache.h"
#include "operators.h"

namespace volta {
namespace {

using CpuHalf = c10::Half;

#define VOLTA_KERNELS(op, form)                                                                       \
  {{{"kv_cache", op "_f16_f16_" form "8_sm70"}, {"kv_cache", op "_f16_f16_" form "1_sm70"}},          \
   {{"kv_cache", op "_f16_e4m3_" form "8_sm70"}, {"kv_cache", op "_f16_e4m3_" form "1_sm70"}},        \
   {{"kv_cache", op "_f16_e5m2_" form "8_sm70"}, {"kv_cache", op "_f16_e5m2_" form "1_sm70"}}}
Kernel paged_kernels[3][2] = VOLTA_KERNELS("kv_cache_write", "paged");
Kernel split_kernels[3][2] = VOLTA_KERNELS("reshape_and_cache", "split");
#undef VOLTA_KERNELS

template <typename F>
void write_token(const CacheSide& side, int heads, std::int64_t token, std::int64_t block, std::int64_t position) {
  for (int head = 0; head < heads; ++head) {
    const CpuHalf* from = static_cast<const CpuHalf*>(side.dense) + dense_offset(side, token, head);
    const float scale = std::is_same_v<F, CpuHalf> ? 1.0f : side.scale[head * side.scale_stride];
    for (int i = 0; i < side.width; ++i) {
      const std::int64_t at = cache_offset(side, block, position, head, i);
      if constexpr (std::is_same_v<F, CpuHalf>)
        static_cast<CpuHalf*>(side.cache)[at] = from[i];
      else
        static_cast<unsigned char*>(side.cache)[at] = F::encode(static_cast<float>(from[i]) / scale);
    }
  }
}

template <typename F>
void write_on_cpu(const CacheWriteArguments& a, std::int64_t tokens) {
  parallel(tokens, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const long long slot = a.slots[token];
      if (slot < 0 || slot >= a.total_slots) continue;
      const long long block_size = a.block_size.divisor;
      for (const CacheSide& side : a.sides)
        write_token<F>(side, a.rows.heads, token, slot / block_size, slot % block_size);
    }
  });
}

struct Inputs {
  View key, value, key_cache, value_cache, slots;
  std::int64_t blocks, block_size;
};

// The tensors; key_cache has `dims` dimensions, of which `position` counts the positions of a block.
Inputs read(
    const Checker& check, const Tensor& key, const Tensor& value, const Tensor& key_cache, const Tensor& value_cache,
    const Tensor& slots, int dims, int position) {
  Inputs in{check.view(key, "key"), check.view(value, "value"), check.view(key_cache, "key_cache"),
            check.view(value_cache, "value_cache"), check.view(slots, "slot_mapping"), 0, 0};
  check.dim(in.key_cache, dims);
  check.dim(in.value_cache, 4);
  in.blocks = in.key_cache.size(0), in.block_size = in.key_cache.size(position);
  return in;
}

// Checks what the caches have no part in, and fills in everything but the places of the caches.
CacheWriteArguments common(const Checker& check, const Inputs& in, const Tensor& k_scale, const Tensor& v_scale) {
  CacheWriteArguments a{};
  check.dtype(in.value_cache, in.key_cache.dtype);
  a.sides[0] = dense_side(check, in.key, check.view(k_scale, "k_scale"));
  a.sides[1] = dense_side(check, in.value, check.view(v_scale, "v_scale"));
  check.dtype(in.slots, ScalarType::Long);
  check.dim(in.slots, 1);
  check.unit_stride(in.slots);
  check.same_device(in.slots, in.key);
  const std::int64_t tokens = in.slots.size(0);
  a.rows = cache_rows(check, tokens, in.key, in.value);
  check.that(
      in.key.size(0) >= tokens && in.value.size(0) >= tokens, "key and value must have a row for each slot of slot_mapping");
  a.slots = in.slots.as<const long long>();
  a.total_slots = in.blocks * in.block_size;
  const int block_size = check.small(in.block_size, "the block size");
  a.block_size = FastDivide(block_size == 0 ? 1 : static_cast<unsigned>(block_size));
  return a;
}

void run(Kernel (&kernels)[3][2], const Inputs& in, const CacheWriteArguments& a, CacheFormat format, bool packed) {
  if (a.rows.count == 0 || a.total_slots == 0) return;
  if (in.key.device >= 0) return launch_rows(kernels[static_cast<int>(format)], in.key.device, a, packed);
  const std::int64_t tokens = in.slots.size(0);
  if (format == CacheFormat::kHalf) return write_on_cpu<CpuHalf>(a, tokens);
  format == CacheFormat::kE4M3 ? write_on_cpu<E4M3>(a, tokens) : write_on_cpu<E5M2>(a, tokens);
}

// Writes caches [blocks, block_size, heads, width].
void write_paged(const Checker& check, const Inputs& in, CacheWriteArguments a, CacheFormat format) {
  place_paged(check, a.sides[0], in.key, in.key_cache);
  place_paged(check, a.sides[1], in.value, in.value_cache);
  check.size(in.value_cache, 0, in.blocks);
  check.size(in.value_cache, 1, in.block_size);
  const bool packed = paged_packable(in.key, in.key_cache) && paged_packable(in.value, in.value_cache);
  run(paged_kernels, in, a, format, packed);
}

// Places keys [blocks, heads, width / x, block_size, x] and values [blocks, heads, width, block_size].
void place_split(const Checker& check, const Inputs& in, CacheSide& key, CacheSide& value) {
  const View &keys = in.key_cache, &values = in.value_cache;
  for (const View* cache : {&keys, &values}) {
    check.same_device(*cache, in.key);
    check.unit_stride(*cache);
    check.size(*cache, 1, in.key.size(1));
  }
  const int run = check.small(keys.size(4), "the last dimension of key_cache");
  check.that(
      keys.size(2) * run == in.key.size(2), "key_cache.size(2) times key_cache.size(4) must be the head size of key");
  check.size(values, 0, in.blocks);
  check.size(values, 2, in.value.size(2));
  check.size(values, 3, in.block_size);
  key.cache = keys.data, value.cache = values.data;
  key.block_stride = keys.stride(0), key.head_stride = keys.stride(1), key.run_stride = keys.stride(2);
  key.position_stride = keys.stride(3), key.run = FastDivide(run == 0 ? 1 : static_cast<unsigned>(run));
  value.block_stride = values.stride(0), value.head_stride = values.stride(1), value.run_stride = values.stride(2);
  value.position_stride = values.stride(3), value.run = FastDivide(1);
}

}  // namespace

void kv_cache_write(
    const Tensor& key, const Tensor& value, const Tensor& key_cache, const Tensor& value_cache, const Tensor& slots,
    const Tensor& k_scale, const Tensor& v_scale) {
  const Checker check("kv_cache_write");
  const Inputs in = read(check, key, value, key_cache, value_cache, slots, 4, 1);
  const CacheFormat format = format_of(check, in.key_cache);
  write_paged(check, in, common(check, in, k_scale, v_scale), format);
}

void reshape_and_cache_flash(
    const Tensor& key, const Tensor& value, const Tensor& key_cache, const Tensor& value_cache, const Tensor& slots,
    const Text& kv_cache_dtype, const Tensor& k_scale, const Tensor& v_scale) {
  const Checker check("reshape_and_cache_flash");
  const Inputs in = read(check, key, value, key_cache, value_cache, slots, 4, 1);
  const CacheFormat format = format_named(check, kv_cache_dtype, in.key_cache);
  write_paged(check, in, common(check, in, k_scale, v_scale), format);
}

void reshape_and_cache(
    const Tensor& key, const Tensor& value, const Tensor& key_cache, const Tensor& value_cache, const Tensor& slots,
    const Text& kv_cache_dtype, const Tensor& k_scale, const Tensor& v_scale) {
  const Checker check("reshape_and_cache");
  const Inputs in = read(check, key, value, key_cache, value_cache, slots, 5, 3);
  const CacheFormat format = format_named(check, kv_cache_dtype, in.key_cache);
  CacheWriteArguments a = common(check, in, k_scale, v_scale);
  place_split(check, in, a.sides[0], a.sides[1]);
  const bool dense = packable(in.key, kPack) && packable(in.value, kPack) && in.value.size(2) % kPack == 0;
  const bool packed = dense && in.key_cache.size(4) % kPack == 0 && packable(in.key_cache, kPack);
  run(split_kernels, in, a, format, packed);
}

}  // namespace volta
