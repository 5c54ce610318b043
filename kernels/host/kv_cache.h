// What the operators of kernels/cuda/kv_cache.cu share on the host.
#pragma once

#include "../common/kv_cache.h"
#include "tensor.h"
#include "text.h"

namespace volta {

enum class CacheFormat { kHalf, kE4M3, kE5M2 };

constexpr int kPack = 8;  // halves that one thread moves at once, where everything is aligned for it

// The format that a cache's dtype says.
CacheFormat format_of(const Checker& check, const View& cache);

// The format that upstream's kv_cache_dtype says; the cache must be of it, or of bytes.
CacheFormat format_named(const Checker& check, const Text& name, const View& cache);

// One side: dense [tokens, heads, width] in float16 with its scale, which holds one number, or one for each head.
// Its cache is left to the caller.
CacheSide dense_side(const Checker& check, const View& dense, const View& scale);

// Places a cache [blocks, block_size, heads, width].
void place_paged(const Checker& check, CacheSide& side, const View& dense, const View& cache);

// The rows of threads for `tokens` tokens, and whether a row may move packs.
CacheRows cache_rows(const Checker& check, std::int64_t tokens, const View& key, const View& value);
bool paged_packable(const View& dense, const View& cache);

// Launch with packs of kPack where `packed`; a scale for each head is for single elements only.
template <typename Arguments>
void launch_rows(Kernel (&kernels)[2], int device, const Arguments& a, bool packed) {
  packed = packed && a.sides[0].scale_stride == 0 && a.sides[1].scale_stride == 0;
  const int width = a.sides[0].width > a.sides[1].width ? a.sides[0].width : a.sides[1].width;
  launch(kernels[packed ? 0 : 1], device, row_tile(a.rows.count, packed ? width / kPack : width), a);
}

inline std::int64_t cache_offset(const CacheSide& side, std::int64_t block, std::int64_t position, int head, int element) {
  const int run = static_cast<int>(side.run.divisor);
  return block * side.block_stride + position * side.position_stride + head * side.head_stride +
         element / run * side.run_stride + element % run;
}

inline std::int64_t dense_offset(const CacheSide& side, std::int64_t token, int head) {
  return token * side.dense_token_stride + head * side.dense_head_stride;
}

}  // namespace volta
