// merge_attention and merge_attn_states: checks, launch, and the CPU implementation. The contract is in kernels/cuda/merge.cu.
#include "../common/merge.h"

#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// [fp16 to fp16, fp32 to fp16, fp32 to fp32] x [in packs, alone]
#define VOLTA_KERNELS(form)                                                                                      \
  {{{"merge", "merge_attention_f16_f16_" form "8_sm70"}, {"merge", "merge_attention_f16_f16_" form "1_sm70"}},   \
   {{"merge", "merge_attention_f32_f16_" form "4_sm70"}, {"merge", "merge_attention_f32_f16_" form "1_sm70"}},   \
   {{"merge", "merge_attention_f32_f32_" form "4_sm70"}, {"merge", "merge_attention_f32_f32_" form "1_sm70"}}}
Kernel parts_kernels[3][2] = VOLTA_KERNELS("parts");
Kernel pair_kernels[3][2] = VOLTA_KERNELS("pair");
#undef VOLTA_KERNELS
// [fp16, fp32] x [in packs, alone]
Kernel states_kernels[2][2] = {
    {{"merge", "merge_attn_states_f16_f16_pair8_sm70"}, {"merge", "merge_attn_states_f16_f16_pair1_sm70"}},
    {{"merge", "merge_attn_states_f32_f32_pair4_sm70"}, {"merge", "merge_attn_states_f32_f32_pair1_sm70"}}};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float cleaned(float lse) { return lse < kInfinity ? lse : -kInfinity; }

// The exponential of a negative number alone, so that nothing overflows.
float sigmoid(float x) {
  const float small = std::exp(-std::fabs(x));
  return (x < 0 ? small : 1.0f) / (1.0f + small);
}

float log_sum(float largest, float total, bool base2) {
  return total == 0 ? -kInfinity : largest + (base2 ? std::log2(total) : std::log(total));
}

// The weighted sum of one head, element by element.
struct Sum {
  std::vector<float> at;
  float total = 0;

  explicit Sum(int width) : at(width) {}
  void clear() { std::fill(at.begin(), at.end(), 0.0f), total = 0; }
  template <typename P>
  void add(const P* part, float weight) {
    total += weight;
    for (std::size_t i = 0; i < at.size(); ++i) at[i] += weight * static_cast<float>(part[i]);
  }
  template <typename T>
  void round_to(T* out) const {
    const float inverse = total == 0 ? 0.0f : 1.0f / total;
    for (std::size_t i = 0; i < at.size(); ++i) out[i] = static_cast<T>(at[i] * inverse);
  }
};

void write_lse(const MergeTarget& t, std::int64_t token, int head, float lse) {
  if (t.lse != nullptr) t.lse[token * t.lse_token + head * t.lse_head] = lse;
}

template <typename P, typename T>
void merge_head(const MergeArguments& a, std::int64_t token, int head, Sum& sum) {
  const MergeTarget& t = a.target;
  const float* lse = a.lse + token * a.lse_token + head * a.lse_head;
  float largest = -kInfinity;
  for (int r = 0; r < a.count; ++r) largest = std::max(largest, cleaned(lse[r * a.lse_part]));
  sum.clear();
  for (int r = 0; r < a.count; ++r) {
    const float l = cleaned(lse[r * a.lse_part]);
    if (l == -kInfinity) continue;
    const P* part = static_cast<const P*>(a.parts) + r * a.part + token * a.token + head * a.head;
    sum.add(part, t.base2 ? std::exp2(l - largest) : std::exp(l - largest));
  }
  T* out = static_cast<T*>(t.out) + token * t.token + head * t.head;
  sum.round_to(out);
  write_lse(t, token, head, log_sum(largest, sum.total, t.base2));
  if (t.gate == nullptr) return;
  const T* gate = static_cast<const T*>(t.gate) + token * t.gate_token + head * t.gate_head;
  for (int i = 0; i < t.width; ++i) {
    const T open = static_cast<T>(sigmoid(static_cast<float>(gate[i])));
    out[i] = static_cast<T>(static_cast<float>(out[i]) * static_cast<float>(open));
  }
}

template <typename T>
void merge_states_head(const MergePairArguments& a, std::int64_t token, int head, Sum& sum) {
  const MergeTarget& t = a.target;
  const T* parts[2];
  float raw[2], lse[2];
  for (int r = 0; r < 2; ++r) {
    parts[r] = static_cast<const T*>(a.parts[r].out) + token * a.parts[r].token + head * a.parts[r].head;
    raw[r] = a.parts[r].lse[token * a.parts[r].lse_token + head * a.parts[r].lse_head];
    lse[r] = std::isinf(raw[r]) ? -kInfinity : raw[r];
  }
  T* out = static_cast<T*>(t.out) + token * t.token + head * t.head;
  const float largest = std::fmax(lse[0], lse[1]);
  const bool copied = token >= a.merged_tokens;
  if (copied || largest == -kInfinity) {
    std::copy_n(parts[copied ? 1 : 0], t.width, out);
    return write_lse(t, token, head, copied ? raw[1] : -kInfinity);
  }
  sum.clear();
  for (int r = 0; r < 2; ++r)
    if (lse[r] != -kInfinity) sum.add(parts[r], std::exp(lse[r] - largest));
  sum.round_to(out);
  write_lse(t, token, head, log_sum(largest, sum.total, false));
}

template <typename Arguments, typename Head>
void on_cpu(const Arguments& a, std::int64_t tokens, const Head& merge) {
  parallel(tokens, 16, [&](std::int64_t begin, std::int64_t end) {
    Sum sum(a.target.width);
    for (std::int64_t token = begin; token < end; ++token)
      for (int head = 0; head < a.target.heads; ++head) merge(a, token, head, sum);
  });
}

// Checks output [tokens, heads, width] and its log-sum-exp, whose dimensions `token` and `head` are given.
MergeTarget target_of(
    const Checker& check, const View& out, const std::optional<View>& lse, int lse_token, int heads_of_a_row) {
  check.float_type(out);
  check.dim(out, 3);
  check.unit_stride(out);
  MergeTarget t{};
  t.out = out.data, t.token = out.stride(0), t.head = out.stride(1);
  t.heads = check.small(out.size(1), "the number of heads");
  t.width = check.small(out.size(2), "the head size");
  const std::int64_t groups = (t.heads + heads_of_a_row - 1) / heads_of_a_row;
  t.rows = check.small(out.size(0) * groups, "the number of tokens times heads");
  t.groups = FastDivide(groups == 0 ? 1 : static_cast<unsigned>(groups));
  if (lse.has_value()) {
    check.dtype(*lse, ScalarType::Float);
    check.dim(*lse, 2);
    check.size(*lse, lse_token, out.size(0));
    check.size(*lse, 1 - lse_token, out.size(1));
    check.same_device(*lse, out);
    t.lse = lse->as<float>(), t.lse_token = lse->stride(lse_token), t.lse_head = lse->stride(1 - lse_token);
  }
  return t;
}

template <typename Arguments>
void launch_merge(Kernel (&kernels)[2], int device, const Arguments& a, bool packed, int pack) {
  launch(kernels[packed ? 0 : 1], device, row_tile(a.target.rows, packed ? a.target.width / pack : a.target.width), a);
}

// The two parts of `a`, as the kernel for pairs takes them.
MergePairArguments pair_of(const MergeArguments& a, std::int64_t part_bytes) {
  MergePairArguments pair{};
  pair.target = a.target;
  const std::int64_t groups = (a.target.heads + kHeadsOfAPair - 1) / kHeadsOfAPair;
  pair.target.rows = a.target.rows / a.target.heads * groups;
  pair.target.groups = FastDivide(static_cast<unsigned>(groups));
  for (int r = 0; r < 2; ++r)
    pair.parts[r] = {static_cast<const char*>(a.parts) + r * a.part * part_bytes, a.token, a.head,
                     a.lse + r * a.lse_part, a.lse_token, a.lse_head};
  return pair;
}

}  // namespace

void merge_attention(
    const Tensor& output_, const std::optional<Tensor>& output_lse, const Tensor& parts_, const Tensor& parts_lse,
    bool base2, const std::optional<Tensor>& gate_) {
  const Checker check("merge_attention");
  const View out = check.view(output_, "output"), parts = check.view(parts_, "partial_output");
  const View lse = check.view(parts_lse, "partial_lse");
  const std::optional<View> gate = check.view(gate_, "gate");
  check.float_type(parts);
  MergeArguments a{};
  a.target = target_of(check, out, check.view(output_lse, "output_lse"), 0, 1);
  check.that(
      parts.dtype == ScalarType::Float || out.dtype == ScalarType::Half, "float16 parts merge into a float16 output only");
  check.dim(parts, 4);
  check.dim(lse, 3);
  check.dtype(lse, ScalarType::Float);
  check.unit_stride(parts);
  for (int i = 0; i < 3; ++i) check.size(out, i, parts.sizes[i + 1]);
  for (int i = 0; i < 3; ++i) check.size(lse, i, parts.sizes[i]);
  check.same_device(parts, out);
  check.same_device(lse, out);
  check.that(parts.sizes[0] <= 64, "partial_output must have at most 64 parts");
  a.parts = parts.data, a.part = parts.stride(0), a.token = parts.stride(1), a.head = parts.stride(2);
  a.lse = lse.as<const float>(), a.lse_part = lse.stride(0), a.lse_token = lse.stride(1), a.lse_head = lse.stride(2);
  a.count = static_cast<int>(parts.sizes[0]);
  a.target.base2 = base2;
  const int pack = parts.dtype == ScalarType::Half ? 8 : 4;
  bool packed = a.target.width % pack == 0 && packable(out, pack) && packable(parts, pack);
  if (gate.has_value()) {
    check.same_sizes(*gate, out);
    check.unit_stride(*gate);
    check.dtype(*gate, out.dtype);
    packed = packed && packable(*gate, pack);
    a.target.gate = gate->data, a.target.gate_token = gate->stride(0), a.target.gate_head = gate->stride(1);
  }
  if (a.target.rows == 0 || a.target.width == 0) return;
  const int kind = parts.dtype == ScalarType::Half ? 0 : out.dtype == ScalarType::Half ? 1 : 2;
  if (out.device >= 0) {
    if (a.count == 2)
      return launch_merge(pair_kernels[kind], out.device, pair_of(a, element_size(parts.dtype)), packed, pack);
    return launch_merge(parts_kernels[kind], out.device, a, packed, pack);
  }
  kind == 0   ? on_cpu(a, out.size(0), merge_head<c10::Half, c10::Half>)
  : kind == 1 ? on_cpu(a, out.size(0), merge_head<float, c10::Half>)
              : on_cpu(a, out.size(0), merge_head<float, float>);
}

void merge_attn_states(
    const Tensor& output, const std::optional<Tensor>& output_lse, const Tensor& prefix_output, const Tensor& prefix_lse,
    const Tensor& suffix_output, const Tensor& suffix_lse, std::optional<std::int64_t> prefill_tokens_with_context,
    const std::optional<Tensor>& output_scale) {
  const Checker check("merge_attn_states");
  check.that(!output_scale.has_value(), "output_scale asks for an FP8 output, which these kernels do not write");
  const View out = check.view(output, "output");
  MergePairArguments a{};
  a.target = target_of(check, out, check.view(output_lse, "output_lse"), 1, kHeadsOfAPair);
  a.merged_tokens = prefill_tokens_with_context.value_or(out.size(0));
  check.that(
      a.merged_tokens >= 0 && a.merged_tokens <= out.size(0),
      "prefill_tokens_with_context must be between 0 and the number of tokens");
  const View parts[2] = {check.view(prefix_output, "prefix_output"), check.view(suffix_output, "suffix_output")};
  const View lses[2] = {check.view(prefix_lse, "prefix_lse"), check.view(suffix_lse, "suffix_lse")};
  const int pack = out.dtype == ScalarType::Half ? 8 : 4;
  bool packed = a.target.width % pack == 0 && packable(out, pack);
  for (int r = 0; r < 2; ++r) {
    check.same_sizes(parts[r], out);
    check.unit_stride(parts[r]);
    check.dtype(parts[r], out.dtype);
    packed = packed && packable(parts[r], pack);
    check.dtype(lses[r], ScalarType::Float);
    check.dim(lses[r], 2);
    check.size(lses[r], 0, out.size(1));
    check.size(lses[r], 1, out.size(0));
    check.same_device(lses[r], out);
    a.parts[r] = {parts[r].data, parts[r].stride(0), parts[r].stride(1), lses[r].as<const float>(), lses[r].stride(1),
                  lses[r].stride(0)};
  }
  if (a.target.rows == 0 || a.target.width == 0) return;
  const bool half = out.dtype == ScalarType::Half;
  if (out.device >= 0) return launch_merge(states_kernels[half ? 0 : 1], out.device, a, packed, pack);
  half ? on_cpu(a, out.size(0), merge_states_head<c10::Half>) : on_cpu(a, out.size(0), merge_states_head<float>);
}

}  // namespace volta
