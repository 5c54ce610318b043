// rotary_embedding: checks, launch, and the CPU implementation. The contract is in kernels/cuda/rotary.cu.
#include <torch/headeronly/util/Half.h>

#include <cmath>
#include <limits>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

struct Side {
  void* data;
  long long token_stride;
  long long head_stride;
  int heads;
};

// The argument of the kernels, as in rotary.cu.
struct Arguments {
  const long long* positions;
  Side query;
  Side key;
  const void* cache;
  long long cache_stride;
  long long max_position;
  long long tokens;
  int half_rotated;
  float sign;
};

// [fp16 data and cache, fp16 data with fp32 cache, fp32] x [NeoX in packs, NeoX alone, GPT-J]
Kernel kernels[3][3] = {
    {{"rotary", "rotary_embedding_f16_f16_f16_neox8_sm70"},
     {"rotary", "rotary_embedding_f16_f16_f16_neox1_sm70"},
     {"rotary", "rotary_embedding_f16_f16_f16_gptj1_sm70"}},
    {{"rotary", "rotary_embedding_f16_f32_f16_neox4_sm70"},
     {"rotary", "rotary_embedding_f16_f32_f16_neox1_sm70"},
     {"rotary", "rotary_embedding_f16_f32_f16_gptj1_sm70"}},
    {{"rotary", "rotary_embedding_f32_f32_f32_neox4_sm70"},
     {"rotary", "rotary_embedding_f32_f32_f32_neox1_sm70"},
     {"rotary", "rotary_embedding_f32_f32_f32_gptj1_sm70"}},
};

// Accepts [*positions, heads * head_size] and [*positions, heads, head_size]; positions has one or two dimensions.
Side side_of(const Checker& check, const View& view, const View& positions, std::int64_t head_size, std::int64_t offset) {
  const bool split = view.dim == positions.dim + 2;
  check.that(split || view.dim == positions.dim + 1, "query and key must have one or two dimensions more than positions");
  for (int i = 0; i < positions.dim; ++i) check.size(view, i, positions.sizes[i]);
  check.unit_stride(view);
  if (split) check.size(view, -1, head_size);
  check.that(view.size(-1) % head_size == 0, "query and key must hold whole heads of head_size elements");
  if (positions.dim == 2 && positions.sizes[0] > 1)
    check.that(
        view.stride(0) == view.stride(1) * view.size(1), "the two leading dimensions of query and key must be collapsible");
  const std::int64_t heads = split ? view.size(-2) : view.size(-1) / head_size;
  const long long head_stride = split ? view.stride(-2) : head_size;
  return {view.data + offset * element_size(view.dtype), view.stride(positions.dim - 1), head_stride,
          check.small(heads, "the number of heads")};
}

template <typename T, typename C>
void rotate_head(const Arguments& a, T* head, const C* cosines, bool neox) {
  for (int i = 0; i < a.half_rotated; ++i) {
    T& first = neox ? head[i] : head[2 * i];
    T& second = neox ? head[i + a.half_rotated] : head[2 * i + 1];
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const float x = static_cast<float>(first), y = static_cast<float>(second);
    const float cosine = cosines == nullptr ? kNan : static_cast<float>(cosines[i]);
    const float sine = cosines == nullptr ? kNan : a.sign * static_cast<float>(cosines[i + a.half_rotated]);
    first = static_cast<T>(std::fma(x, cosine, -(y * sine)));
    second = static_cast<T>(std::fma(y, cosine, x * sine));
  }
}

template <typename T, typename C>
void on_cpu(const Arguments& a, bool neox) {
  parallel(a.tokens, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const long long position = a.positions[token];
      const bool valid = position >= 0 && position < a.max_position;
      const C* cosines = valid ? static_cast<const C*>(a.cache) + position * a.cache_stride : nullptr;
      for (const Side* side : {&a.query, &a.key})
        for (int head = 0; head < side->heads; ++head)
          rotate_head<T, C>(
              a, static_cast<T*>(side->data) + token * side->token_stride + head * side->head_stride, cosines, neox);
    }
  });
}

bool side_packable(const Side& side, int pack, int size) {
  return reinterpret_cast<std::uintptr_t>(side.data) % (pack * size) == 0 && side.token_stride % pack == 0 &&
         side.head_stride % pack == 0;
}

void launch_rotary(const View& query, const View& cache, const Arguments& a, bool neox) {
  const bool half = query.dtype == ScalarType::Half, half_cache = cache.dtype == ScalarType::Half;
  const int pack = half && half_cache ? 8 : 4, size = half ? 2 : 4;
  const bool packed = neox && a.half_rotated % pack == 0 && packable(cache, pack) && side_packable(a.query, pack, size) &&
                      (a.key.heads == 0 || side_packable(a.key, pack, size));
  const int per_head = packed ? a.half_rotated / pack : a.half_rotated;
  const Shape shape = tile(a.tokens, static_cast<std::int64_t>(a.query.heads + a.key.heads) * per_head);
  launch(kernels[half ? (half_cache ? 0 : 1) : 2][neox ? (packed ? 0 : 1) : 2], query.device, shape, a);
}

}  // namespace

void rotary_embedding(
    const Tensor& positions_, const Tensor& query_, const std::optional<Tensor>& key_, std::int64_t head_size,
    const Tensor& cache_, bool is_neox, std::int64_t rope_dim_offset, bool inverse) {
  const Checker check("rotary_embedding");
  const View positions = check.view(positions_, "positions"), query = check.view(query_, "query");
  const View cache = check.view(cache_, "cos_sin_cache");
  const std::optional<View> key = check.view(key_, "key");
  check.dtype(positions, ScalarType::Long);
  check.that(positions.dim == 1 || positions.dim == 2, "positions must have one or two dimensions");
  check.contiguous(positions);
  check.float_type(query);
  check.float_type(cache);
  check.that(query.dtype == ScalarType::Half || cache.dtype == ScalarType::Float, "a float32 query needs a float32 cache");
  check.dim(cache, 2);
  check.unit_stride(cache);
  check.same_device(positions, query);
  check.same_device(cache, query);
  check.that(head_size > 0, "head_size must be positive");
  check.that(cache.size(1) % 2 == 0, "the rotated width, cos_sin_cache.size(1), must be even");
  check.that(
      rope_dim_offset >= 0 && rope_dim_offset + cache.size(1) <= head_size,
      "rope_dim_offset + cos_sin_cache.size(1) must be at most head_size");
  Arguments a{};
  a.positions = positions.as<const long long>();
  a.query = side_of(check, query, positions, head_size, rope_dim_offset);
  if (key.has_value()) {
    check.dtype(*key, query.dtype);
    check.same_device(*key, query);
    a.key = side_of(check, *key, positions, head_size, rope_dim_offset);
  }
  a.cache = cache.data, a.cache_stride = cache.stride(0), a.max_position = cache.size(0);
  a.tokens = check.small(positions.numel(), "the number of tokens");
  a.half_rotated = check.small(cache.size(1) / 2, "the rotated width");
  a.sign = inverse ? -1.0f : 1.0f;
  check.small(static_cast<std::int64_t>(a.query.heads + a.key.heads) * a.half_rotated, "heads times rotated width");
  if (a.tokens == 0 || a.half_rotated == 0 || a.query.heads + a.key.heads == 0) return;
  if (query.device >= 0) return launch_rotary(query, cache, a, is_neox);
  if (query.dtype == ScalarType::Float) return on_cpu<float, float>(a, is_neox);
  cache.dtype == ScalarType::Half ? on_cpu<c10::Half, c10::Half>(a, is_neox) : on_cpu<c10::Half, float>(a, is_neox);
}

}  // namespace volta
