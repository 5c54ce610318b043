// moe_sum: checks, launch, and the CPU implementation. The contract is in kernels/cuda/moe_sum.cu.
#include <torch/headeronly/util/Half.h>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// The argument of the kernels, as in moe_sum.cu.
struct Arguments {
  void* out;
  const void* in;
  long long token_stride, expert_stride, element_stride;
  Ids ids;
  long long id_token_stride, id_expert_stride;
  const int* map;
  long long experts;
  long long tokens;
  int k, columns;
};

// [fp16, fp32] x [in packs, alone]
Kernel kernels[2][2] = {
    {{"moe_sum", "moe_sum_f16_f16_items8_sm70"}, {"moe_sum", "moe_sum_f16_f16_items1_sm70"}},
    {{"moe_sum", "moe_sum_f32_f32_items4_sm70"}, {"moe_sum", "moe_sum_f32_f32_items1_sm70"}}};

bool left_out(const Arguments& a, std::int64_t token, int j) {
  if (a.ids.data == nullptr) return false;
  const std::int64_t id = a.ids[token * a.id_token_stride + j * a.id_expert_stride];
  return id < 0 || (a.map != nullptr && (id >= a.experts || a.map[id] < 0));
}

template <typename T>
void on_cpu(const Arguments& a) {
  parallel(a.tokens, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const T* in = static_cast<const T*>(a.in) + token * a.token_stride;
      for (int i = 0; i < a.columns; ++i) {
        float sum = 0;
        for (int j = 0; j < a.k; ++j)
          if (!left_out(a, token, j)) sum += static_cast<float>(in[j * a.expert_stride + i * a.element_stride]);
        static_cast<T*>(a.out)[token * a.columns + i] = static_cast<T>(sum);
      }
    }
  });
}

// The ids and their map.
void entries_of(
    const Checker& check, const View& in, const std::optional<View>& ids, const std::optional<View>& map, Arguments& a) {
  check.that(ids.has_value() || !map.has_value(), "expert_map needs topk_ids");
  if (!ids.has_value()) return;
  check.dim(*ids, 2);
  check.size(*ids, 0, in.size(0));
  check.size(*ids, 1, in.size(1));
  check.same_device(*ids, in);
  a.ids = check.strided_ids(*ids);
  a.id_token_stride = ids->stride(0), a.id_expert_stride = ids->stride(1);
  if (!map.has_value()) return;
  check.vector(*map, ScalarType::Int, map->numel(), in);
  a.map = map->as<const int>(), a.experts = map->numel();
}

}  // namespace

void moe_sum(
    const Tensor& input, const Tensor& output, const std::optional<Tensor>& ids, const std::optional<Tensor>& map) {
  const Checker check("moe_sum");
  const View in = check.view(input, "input"), out = check.view(output, "output");
  check.float_type(in);
  check.dim(in, 3);
  check.dtype(out, in.dtype);
  check.contiguous(out);
  check.same_device(out, in);
  check.that(out.numel() == in.size(0) * in.size(2), "output must have as many elements as input has for one expert");
  Arguments a{};
  a.out = out.data, a.in = in.data;
  a.token_stride = in.stride(0), a.expert_stride = in.stride(1), a.element_stride = in.stride(2);
  a.tokens = check.small(in.size(0), "the number of tokens"), a.k = check.small(in.size(1), "the number of experts a token");
  a.columns = check.small(in.size(2), "the last dimension of input");
  entries_of(check, in, check.view(ids, "topk_ids"), check.view(map, "expert_map"), a);
  if (a.tokens == 0 || a.columns == 0) return;
  const bool half = in.dtype == ScalarType::Half;
  if (in.device < 0) return half ? on_cpu<c10::Half>(a) : on_cpu<float>(a);
  const int pack = half ? 8 : 4;
  const bool packed = a.columns % pack == 0 && (a.element_stride == 1 || a.columns == 1) && packable(in, pack) &&
                      packable(out, pack);
  launch(kernels[half ? 0 : 1][packed ? 0 : 1], in.device, tile(a.tokens, a.columns / (packed ? pack : 1)), a);
}

}  // namespace volta
