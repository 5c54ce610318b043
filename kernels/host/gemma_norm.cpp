// gemma_rms_norm: checks, launch, and the CPU implementation. The contract and the order are in kernels/cuda/gemma_norm.cu.
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

using CpuHalf = c10::Half;

// The argument of the kernels, as in gemma_norm.cu.
struct Arguments {
  void* out;
  Rows out_rows;
  const void* in;
  Rows in_rows;
  void* residual;
  Rows residual_rows;
  const void* weight;
  bool half_weight;
  long long rows;
  int columns;
  float epsilon, offset;
};

#define VOLTA_KERNELS(types)                                 \
  {{"gemma_norm", "gemma_rms_norm_" types "_packs_sm70"},    \
   {"gemma_norm", "gemma_rms_norm_" types "_single_sm70"}}
// [types of x, residual and result] x [in packs, alone]
Kernel kernels[5][2] = {
    VOLTA_KERNELS("f16_f16"), VOLTA_KERNELS("f16_f16_f16"), VOLTA_KERNELS("f16_f32_f16"), VOLTA_KERNELS("f32_f32"),
    VOLTA_KERNELS("f32_f32_f32")};
#undef VOLTA_KERNELS

constexpr int kPack = 8, kSlots = 512, kWarp = 32;

void launch_norm(int kind, int device, const Arguments& a, bool packed) {
  const std::int64_t packs = (static_cast<std::int64_t>(a.columns) + kPack - 1) / kPack;
  const std::int64_t slots = (std::min<std::int64_t>(packs, kSlots) + kWarp - 1) / kWarp * kWarp;
  Shape shape;
  shape.block_x = static_cast<unsigned>(slots);
  shape.block_y = slots == kWarp ? 8 : 1;
  shape.grid_x = static_cast<unsigned>((a.rows + shape.block_y - 1) / shape.block_y);
  launch(kernels[kind][packed ? 0 : 1], device, shape, a);
}

// The first `count` numbers (a power of two) become one by halving.
float halved(float* numbers, int count) {
  for (count /= 2; count > 0; count /= 2)
    for (int i = 0; i < count; ++i) numbers[i] += numbers[i + count];
  return numbers[0];
}

float sum_of_squares(const std::vector<float>& z) {
  float slots[kSlots] = {}, warps[kSlots / kWarp];
  const int columns = static_cast<int>(z.size());
  for (int i = 0; i < columns; ++i) slots[i / kPack % kSlots] += z[i] * z[i];
  for (int warp = 0; warp < kSlots / kWarp; ++warp) warps[warp] = halved(slots + warp * kWarp, kWarp);
  return halved(warps, kSlots / kWarp);
}

template <typename T, typename R, bool kAdd>
void norm_rows(const Arguments& a, std::int64_t begin, std::int64_t end) {
  std::vector<float> z(a.columns);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* in = static_cast<const T*>(a.in) + row_offset(a.in_rows, row);
    T* out = static_cast<T*>(a.out) + row_offset(a.out_rows, row);
    R* residual = kAdd ? static_cast<R*>(a.residual) + row_offset(a.residual_rows, row) : nullptr;
    for (int i = 0; i < a.columns; ++i) {
      z[i] = static_cast<float>(in[i]);
      if (!kAdd) continue;
      z[i] += static_cast<float>(residual[i]);
      residual[i] = static_cast<R>(z[i]);
    }
    const float mean = sum_of_squares(z) / static_cast<float>(a.columns);
    const float scale = 1.0f / std::sqrt(mean + a.epsilon);
    for (int i = 0; i < a.columns; ++i) {
      const float w = a.half_weight ? static_cast<float>(static_cast<const CpuHalf*>(a.weight)[i])
                                    : static_cast<const float*>(a.weight)[i];
      out[i] = static_cast<T>(z[i] * scale * (a.offset + w));
    }
  }
}

void norm_on_cpu(int kind, const Arguments& a) {
  parallel(a.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    switch (kind) {
      case 0: return norm_rows<CpuHalf, CpuHalf, false>(a, begin, end);
      case 1: return norm_rows<CpuHalf, CpuHalf, true>(a, begin, end);
      case 2: return norm_rows<CpuHalf, float, true>(a, begin, end);
      case 3: return norm_rows<float, float, false>(a, begin, end);
      default: return norm_rows<float, float, true>(a, begin, end);
    }
  });
}

// Whether rows of the view can be moved in 16-byte packs.
bool in_packs(const View& view) { return packable(view, view.dtype == ScalarType::Half ? 8 : 4); }

}  // namespace

void gemma_rms_norm(
    const Tensor& result, const Tensor& input, const std::optional<Tensor>& residual, const Tensor& weight_, double epsilon,
    double offset) {
  const Checker check("gemma_rms_norm");
  const View in = check.view(input, "input"), out = check.view(result, "result"), weight = check.view(weight_, "weight");
  const std::optional<View> added = check.view(residual, "residual");
  check.float_type(in);
  check.that(in.dim >= 1, "input must have at least one dimension");
  check.dtype(out, in.dtype);
  check.same_sizes(out, in);
  check.float_type(weight);
  check.dim(weight, 1);
  check.size(weight, 0, in.size(-1));
  check.unit_stride(weight);
  check.same_device(weight, in);
  Arguments a{};
  a.columns = check.small(in.size(-1), "the last dimension of input");
  a.rows = check.small(row_count(in), "the number of rows");
  a.out = out.data, a.out_rows = check.rows(out), a.in = in.data, a.in_rows = check.rows(in);
  a.weight = weight.data, a.half_weight = weight.dtype == ScalarType::Half;
  a.epsilon = static_cast<float>(epsilon), a.offset = static_cast<float>(offset);
  bool packed = a.columns % kPack == 0 && in_packs(in) && in_packs(out) && in_packs(weight);
  int kind = in.dtype == ScalarType::Half ? 0 : 3;
  if (added.has_value()) {
    check.float_type(*added);
    check.that(
        added->dtype == ScalarType::Float || in.dtype == ScalarType::Half, "residual must be float32 when input is float32");
    check.same_sizes(*added, in);
    packed = packed && in_packs(*added);
    a.residual = added->data, a.residual_rows = check.rows(*added);
    kind += kind == 0 && added->dtype == ScalarType::Float ? 2 : 1;
  }
  if (a.rows == 0 || a.columns == 0) return;
  in.device < 0 ? norm_on_cpu(kind, a) : launch_norm(kind, in.device, a, packed);
}

}  // namespace volta
