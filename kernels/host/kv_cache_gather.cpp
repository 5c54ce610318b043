// kv_cache_gather: checks, launch, and the CPU implementation. The contract is in kernels/cuda/kv_cache.cu.
#include <torch/headeronly/util/Half.h>

#include <type_traits>

#include "../common/fp8.h"
#include "kv_cache.h"
#include "operators.h"

namespace volta {
namespace {

using CpuHalf = c10::Half;

// [float16, E4M3, E5M2] x [in packs, alone]
Kernel kernels[3][2] = {
    {{"kv_cache", "kv_cache_gather_f16_f16_paged8_sm70"}, {"kv_cache", "kv_cache_gather_f16_f16_paged1_sm70"}},
    {{"kv_cache", "kv_cache_gather_e4m3_f16_paged8_sm70"}, {"kv_cache", "kv_cache_gather_e4m3_f16_paged1_sm70"}},
    {{"kv_cache", "kv_cache_gather_e5m2_f16_paged8_sm70"}, {"kv_cache", "kv_cache_gather_e5m2_f16_paged1_sm70"}}};

template <typename F>
void read_token(const CacheSide& side, int heads, std::int64_t token, std::int64_t block, std::int64_t position) {
  for (int head = 0; head < heads; ++head) {
    CpuHalf* to = static_cast<CpuHalf*>(side.dense) + dense_offset(side, token, head);
    const float scale = std::is_same_v<F, CpuHalf> ? 1.0f : side.scale[head * side.scale_stride];
    for (int i = 0; i < side.width; ++i) {
      const std::int64_t at = cache_offset(side, block, position, head, i);
      if (block < 0)
        to[i] = 0;
      else if constexpr (std::is_same_v<F, CpuHalf>)
        to[i] = static_cast<const CpuHalf*>(side.cache)[at];
      else
        to[i] = static_cast<CpuHalf>(F::decode(static_cast<const unsigned char*>(side.cache)[at]) * scale);
    }
  }
}

template <typename F>
void gather_on_cpu(const CacheGatherArguments& a, std::int64_t tokens) {
  for (int request = 0; request < a.requests; ++request) {
    const std::int64_t begin = a.starts[request] < 0 ? 0 : a.starts[request];
    const std::int64_t end = a.starts[request + 1] < tokens ? a.starts[request + 1] : tokens;
    const std::int64_t first = a.first_tokens == nullptr ? 0 : a.first_tokens[request];
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t block_size = a.block_size.divisor;
      const std::int64_t index = token - a.starts[request] + first, column = index / block_size;
      const bool listed = index >= 0 && column < a.table_width;
      const std::int64_t listed_block = listed ? a.block_table[request * a.table_stride + column] : -1;
      const std::int64_t block = listed_block < a.blocks ? listed_block : -1;
      for (const CacheSide& side : a.sides) read_token<F>(side, a.rows.heads, token, block, index % block_size);
    }
  }
}

// Checks the table and the starts of the sequences, and fills them in.
void sequences(
    const Checker& check, CacheGatherArguments& a, const View& key, const View& table, const View& starts,
    const std::optional<View>& first) {
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
  a.block_table = table.as<const int>(), a.starts = starts.as<const int>(), a.table_stride = table.stride(0);
  a.requests = check.small(table.size(0), "the number of requests");
  a.table_width = check.small(table.size(1), "the width of block_table");
}

}  // namespace

void kv_cache_gather(
    const Tensor& key_cache_, const Tensor& value_cache_, const Tensor& block_table, const Tensor& cu_seq_lens,
    const std::optional<Tensor>& seq_starts, const Tensor& key_, const Tensor& value_, const Tensor& k_scale,
    const Tensor& v_scale) {
  const Checker check("kv_cache_gather");
  const View key = check.view(key_, "key"), value = check.view(value_, "value");
  const View key_cache = check.view(key_cache_, "key_cache"), value_cache = check.view(value_cache_, "value_cache");
  const CacheFormat format = format_of(check, key_cache);
  check.dtype(value_cache, key_cache.dtype);
  CacheGatherArguments a{};
  a.sides[0] = dense_side(check, key, check.view(k_scale, "k_scale"));
  a.sides[1] = dense_side(check, value, check.view(v_scale, "v_scale"));
  place_paged(check, a.sides[0], key, key_cache);
  place_paged(check, a.sides[1], value, value_cache);
  a.rows = cache_rows(check, key.size(0), key, value);
  check.size(value, 0, key.size(0));
  check.size(value_cache, 0, key_cache.size(0));
  check.size(value_cache, 1, key_cache.size(1));
  sequences(check, a, key, check.view(block_table, "block_table"), check.view(cu_seq_lens, "cu_seq_lens"),
            check.view(seq_starts, "seq_starts"));
  a.blocks = key_cache.size(0);
  if (a.rows.count == 0 || a.requests == 0) return;
  check.that(key_cache.size(1) > 0, "the block size must be positive");
  a.block_size = FastDivide(static_cast<unsigned>(check.small(key_cache.size(1), "the block size")));
  const bool packed = paged_packable(key, key_cache) && paged_packable(value, value_cache);
  if (key.device >= 0) return launch_rows(kernels[static_cast<int>(format)], key.device, a, packed);
  if (format == CacheFormat::kHalf) return gather_on_cpu<CpuHalf>(a, key.size(0));
  format == CacheFormat::kE4M3 ? gather_on_cpu<E4M3>(a, key.size(0)) : gather_on_cpu<E5M2>(a, key.size(0));
}

}  // namespace volta
