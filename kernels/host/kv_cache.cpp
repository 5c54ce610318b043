// What the cache operators share: formats, sides and rows. The contract is in kernels/cuda/kv_cache.cu.
#include "kv_cache.h"

namespace volta {

CacheFormat format_of(const Checker& check, const View& cache) {
  if (cache.dtype == ScalarType::Half) return CacheFormat::kHalf;
  if (cache.dtype == ScalarType::Float8_e4m3fn) return CacheFormat::kE4M3;
  if (cache.dtype == ScalarType::Float8_e5m2) return CacheFormat::kE5M2;
  check.fail(
      std::string(cache.name) +
      " must be float16, float8_e4m3fn or float8_e5m2 (its type says the format: view a uint8 cache as one of them)");
}

CacheFormat format_named(const Checker& check, const Text& text, const View& cache) {
  const std::string& name = text.value;
  if (name == "auto" || name == "float16") {
    check.dtype(cache, ScalarType::Half);
    return CacheFormat::kHalf;
  }
  const bool e5m2 = name == "fp8_e5m2";
  if (!e5m2 && name != "fp8" && name != "fp8_e4m3")
    check.fail("kv_cache_dtype must be auto, float16, fp8, fp8_e4m3 or fp8_e5m2, not " + name);
  const ScalarType wanted = e5m2 ? ScalarType::Float8_e5m2 : ScalarType::Float8_e4m3fn;
  if (cache.dtype != ScalarType::Byte) check.dtype(cache, wanted);
  return e5m2 ? CacheFormat::kE5M2 : CacheFormat::kE4M3;
}

CacheSide dense_side(const Checker& check, const View& dense, const View& scale) {
  check.dtype(dense, ScalarType::Half);
  check.dim(dense, 3);
  check.unit_stride(dense);
  check.dtype(scale, ScalarType::Float);
  check.same_device(scale, dense);
  check.that(
      scale.numel() == 1 || (scale.dim == 1 && scale.size(0) == dense.size(1)),
      "k_scale and v_scale must hold one number, or one for each head");
  if (scale.numel() > 1) check.unit_stride(scale);
  CacheSide side{};
  side.dense = dense.data, side.dense_token_stride = dense.stride(0), side.dense_head_stride = dense.stride(1);
  side.scale = scale.as<const float>(), side.scale_stride = scale.numel() > 1 ? 1 : 0;
  side.width = check.small(dense.size(2), "the head size");
  side.run = FastDivide(side.width == 0 ? 1 : static_cast<unsigned>(side.width));
  return side;
}

void place_paged(const Checker& check, CacheSide& side, const View& dense, const View& cache) {
  check.dim(cache, 4);
  check.unit_stride(cache);
  check.same_device(cache, dense);
  check.size(cache, 2, dense.size(1));
  check.size(cache, 3, dense.size(2));
  side.cache = cache.data;
  side.block_stride = cache.stride(0), side.position_stride = cache.stride(1), side.head_stride = cache.stride(2);
}

CacheRows cache_rows(const Checker& check, std::int64_t tokens, const View& key, const View& value) {
  check.same_device(value, key);
  check.size(value, 1, key.size(1));
  CacheRows rows{};
  rows.heads = check.small(key.size(1), "the number of heads");
  const std::int64_t groups = (rows.heads + kHeadsOfARow - 1) / kHeadsOfARow;
  rows.count = check.small(tokens * groups, "the number of tokens times heads");
  rows.groups = FastDivide(groups == 0 ? 1 : static_cast<unsigned>(groups));
  return rows;
}

bool paged_packable(const View& dense, const View& cache) {
  return dense.size(2) % kPack == 0 && packable(dense, kPack) && packable(cache, kPack);
}

}  // namespace volta
