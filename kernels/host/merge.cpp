// merge_attention: checks, launch, and the CPU implementation. The contract is in kernels/cuda/merge.cu.
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../common/fast_divide.h"
#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// The argument of the kernels, as in merge.cu.
struct Arguments {
  void* out;
  long long out_token, out_head;
  float* out_lse;
  long long out_lse_token, out_lse_head;
  const void* parts;
  long long part_stride, token_stride, head_stride;
  const float* lse;
  long long lse_part, lse_token, lse_head;
  const void* gate;
  long long gate_token, gate_head;
  long long tokens;
  FastDivide packs;
  int count, heads;
  bool base2;
};

// [fp16 to fp16, fp32 to fp16, fp32 to fp32] x [in packs, alone]
Kernel kernels[3][2] = {
    {{"merge", "merge_attention_f16_f16_parts8_sm70"}, {"merge", "merge_attention_f16_f16_parts1_sm70"}},
    {{"merge", "merge_attention_f32_f16_parts4_sm70"}, {"merge", "merge_attention_f32_f16_parts1_sm70"}},
    {{"merge", "merge_attention_f32_f32_parts4_sm70"}, {"merge", "merge_attention_f32_f32_parts1_sm70"}}};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float cleaned(float lse) { return lse < kInfinity ? lse : -kInfinity; }

// The exponential of a negative number alone, so that nothing overflows.
float sigmoid(float x) {
  const float small = std::exp(-std::fabs(x));
  return (x < 0 ? small : 1.0f) / (1.0f + small);
}

template <typename P, typename T>
void merge_head(const Arguments& a, std::int64_t token, int head, std::vector<float>& sum) {
  const float* lse = a.lse + token * a.lse_token + head * a.lse_head;
  const int width = static_cast<int>(a.packs.divisor);
  float largest = -kInfinity, total = 0;
  for (int r = 0; r < a.count; ++r) largest = std::max(largest, cleaned(lse[r * a.lse_part]));
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (int r = 0; r < a.count; ++r) {
    const float l = cleaned(lse[r * a.lse_part]);
    if (l == -kInfinity) continue;
    const float weight = a.base2 ? std::exp2(l - largest) : std::exp(l - largest);
    const P* part = static_cast<const P*>(a.parts) + r * a.part_stride + token * a.token_stride + head * a.head_stride;
    total += weight;
    for (int i = 0; i < width; ++i) sum[i] += weight * static_cast<float>(part[i]);
  }
  T* out = static_cast<T*>(a.out) + token * a.out_token + head * a.out_head;
  const T* gate = a.gate == nullptr ? nullptr : static_cast<const T*>(a.gate) + token * a.gate_token + head * a.gate_head;
  const float inverse = total > 0 ? 1.0f / total : 0.0f;
  for (int i = 0; i < width; ++i) {
    out[i] = static_cast<T>(sum[i] * inverse);
    if (gate == nullptr) continue;
    const T open = static_cast<T>(sigmoid(static_cast<float>(gate[i])));
    out[i] = static_cast<T>(static_cast<float>(out[i]) * static_cast<float>(open));
  }
  if (a.out_lse != nullptr)
    a.out_lse[token * a.out_lse_token + head * a.out_lse_head] =
        total > 0 ? largest + (a.base2 ? std::log2(total) : std::log(total)) : -kInfinity;
}

template <typename P, typename T>
void on_cpu(const Arguments& a) {
  parallel(a.tokens, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sum(a.packs.divisor);
    for (std::int64_t token = begin; token < end; ++token)
      for (int head = 0; head < a.heads; ++head) merge_head<P, T>(a, token, head, sum);
  });
}

}  // namespace

void merge_attention(
    const Tensor& output_, const std::optional<Tensor>& output_lse_, const Tensor& parts_, const Tensor& parts_lse_,
    bool base2, const std::optional<Tensor>& gate_) {
  const Checker check("merge_attention");
  const View out = check.view(output_, "output"), parts = check.view(parts_, "partial_output");
  const View lse = check.view(parts_lse_, "partial_lse");
  const std::optional<View> out_lse = check.view(output_lse_, "output_lse"), gate = check.view(gate_, "gate");
  check.float_type(parts);
  check.float_type(out);
  check.that(
      parts.dtype == ScalarType::Float || out.dtype == ScalarType::Half, "float16 parts merge into a float16 output only");
  check.dim(parts, 4);
  check.dim(out, 3);
  check.dim(lse, 3);
  check.dtype(lse, ScalarType::Float);
  check.unit_stride(parts);
  check.unit_stride(out);
  for (int i = 0; i < 3; ++i) check.size(out, i, parts.sizes[i + 1]);
  for (int i = 0; i < 3; ++i) check.size(lse, i, parts.sizes[i]);
  check.same_device(parts, out);
  check.same_device(lse, out);
  check.that(parts.sizes[0] <= 64, "partial_output must have at most 64 parts");
  Arguments a{};
  a.out = out.data, a.out_token = out.stride(0), a.out_head = out.stride(1);
  a.parts = parts.data, a.part_stride = parts.stride(0), a.token_stride = parts.stride(1), a.head_stride = parts.stride(2);
  a.lse = lse.as<const float>(), a.lse_part = lse.stride(0), a.lse_token = lse.stride(1), a.lse_head = lse.stride(2);
  a.tokens = check.small(out.size(0), "the number of tokens"), a.count = static_cast<int>(parts.sizes[0]);
  a.heads = check.small(out.size(1), "the number of heads");
  const int width = check.small(out.size(2), "the head size");
  a.base2 = base2;
  const int pack = parts.dtype == ScalarType::Half ? 8 : 4;
  bool packed = width % pack == 0 && packable(out, pack) && packable(parts, pack);
  if (out_lse.has_value()) {
    check.dtype(*out_lse, ScalarType::Float);
    check.dim(*out_lse, 2);
    for (int i = 0; i < 2; ++i) check.size(*out_lse, i, out.sizes[i]);
    check.same_device(*out_lse, out);
    a.out_lse = out_lse->as<float>(), a.out_lse_token = out_lse->stride(0), a.out_lse_head = out_lse->stride(1);
  }
  if (gate.has_value()) {
    check.dtype(*gate, out.dtype);
    check.dim(*gate, 3);
    for (int i = 0; i < 3; ++i) check.size(*gate, i, out.sizes[i]);
    check.unit_stride(*gate);
    check.same_device(*gate, out);
    packed = packed && packable(*gate, pack);
    a.gate = gate->data, a.gate_token = gate->stride(0), a.gate_head = gate->stride(1);
  }
  if (a.tokens == 0 || a.heads == 0 || width == 0) return;
  a.packs = FastDivide(static_cast<unsigned>(width));
  const std::int64_t elements = check.small(static_cast<std::int64_t>(a.heads) * width, "heads times head size");
  const int kind = parts.dtype == ScalarType::Half ? 0 : out.dtype == ScalarType::Half ? 1 : 2;
  if (out.device >= 0) {
    if (packed) a.packs = FastDivide(static_cast<unsigned>(width / pack));
    return launch(kernels[kind][packed ? 0 : 1], out.device, tile(a.tokens, elements / (packed ? pack : 1)), a);
  }
  kind == 0 ? on_cpu<c10::Half, c10::Half>(a) : kind == 1 ? on_cpu<float, c10::Half>(a) : on_cpu<float, float>(a);
}

}  // namespace volta
