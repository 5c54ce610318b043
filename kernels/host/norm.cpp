// rms_norm and fused_add_rms_norm: checks, launch, and the CPU implementation. The contract is in kernels/cuda/norm.cu.
#include <torch/headeronly/util/Half.h>

#include <cmath>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

using CpuHalf = c10::Half;

// The argument of the kernels, as in norm.cu.
struct Arguments {
  void* out;
  Rows out_rows;
  const void* in;
  Rows in_rows;
  void* residual;
  Rows residual_rows;
  const void* weight;
  long long rows;
  int columns;
  float epsilon;
};

#define VOLTA_KERNELS(op)                                                                       \
  {{{"norm", op "_f16_f16_block8_sm70"}, {"norm", op "_f16_f16_warp8_sm70"}},                   \
   {{"norm", op "_f16_f16_block1_sm70"}, {"norm", op "_f16_f16_warp1_sm70"}},                   \
   {{"norm", op "_f32_f32_block4_sm70"}, {"norm", op "_f32_f32_warp4_sm70"}},                   \
   {{"norm", op "_f32_f32_block1_sm70"}, {"norm", op "_f32_f32_warp1_sm70"}}}
Kernel rms_kernels[4][2] = VOLTA_KERNELS("rms_norm");
Kernel fused_kernels[4][2] = VOLTA_KERNELS("fused_add_rms_norm");
#undef VOLTA_KERNELS

constexpr std::int64_t kWarpColumns = 512;  // rows up to this long are taken by one warp or less

// Threads follow from the number of packs alone, so that the reduction order does too.
void launch_norm(Kernel (&kernels)[4][2], const View& in, const Arguments& a, bool packed) {
  const bool half = in.dtype == ScalarType::Half;
  const int pack = packed ? (half ? 8 : 4) : 1;
  const std::int64_t packs = a.columns / pack;
  Kernel(&kernel)[2] = kernels[(half ? 0 : 2) + (packed ? 0 : 1)];
  Shape shape;
  if (a.columns <= kWarpColumns) {
    while (2 * shape.block_x < packs && shape.block_x < 32) shape.block_x *= 2;  // two packs a lane
    shape.block_y = 256 / shape.block_x;
    shape.grid_x = static_cast<unsigned>((a.rows + shape.block_y - 1) / shape.block_y);
    launch(kernel[1], in.device, shape, a);
  } else {
    const std::int64_t threads = (packs / 2 + 31) / 32 * 32;
    shape.block_x = static_cast<unsigned>(threads > 1024 ? 1024 : threads);
    shape.grid_x = static_cast<unsigned>(a.rows);
    launch(kernel[0], in.device, shape, a);
  }
}

template <typename T, bool kAdd>
void norm_rows(const Arguments& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* in = static_cast<const T*>(a.in) + row_offset(a.in_rows, row);
    T* out = static_cast<T*>(a.out) + row_offset(a.out_rows, row);
    T* residual = kAdd ? static_cast<T*>(a.residual) + row_offset(a.residual_rows, row) : nullptr;
    const T* weight = static_cast<const T*>(a.weight);
    double sum = 0;
    for (int i = 0; i < a.columns; ++i) {
      const T x = kAdd ? static_cast<T>(static_cast<float>(in[i]) + static_cast<float>(residual[i])) : in[i];
      if (kAdd) residual[i] = x;
      sum += static_cast<double>(x) * static_cast<double>(x);
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(sum / a.columns) + a.epsilon);
    const T* x = kAdd ? residual : in;
    for (int i = 0; i < a.columns; ++i) {
      const float w = weight == nullptr ? 1.0f : static_cast<float>(weight[i]);
      out[i] = static_cast<T>(static_cast<float>(x[i]) * scale * w);
    }
  }
}

template <bool kAdd>
void norm_on_cpu(const View& in, const Arguments& a) {
  parallel(a.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    in.dtype == ScalarType::Half ? norm_rows<CpuHalf, kAdd>(a, begin, end) : norm_rows<float, kAdd>(a, begin, end);
  });
}

// Checks what both operators share, and fills in the weight. Returns whether everything so far can be moved in packs.
bool common(const Checker& check, const View& in, const std::optional<View>& weight, Arguments& a) {
  check.float_type(in);
  check.that(in.dim >= 1, "input must have at least one dimension");
  a.columns = check.small(in.size(-1), "the last dimension of input");
  a.rows = check.small(row_count(in), "the number of rows");
  const int pack = in.dtype == ScalarType::Half ? 8 : 4;
  bool packed = a.columns % pack == 0 && packable(in, pack);
  if (weight.has_value()) {
    check.dtype(*weight, in.dtype);
    check.dim(*weight, 1);
    check.size(*weight, 0, a.columns);
    check.unit_stride(*weight);
    check.same_device(*weight, in);
    packed = packed && packable(*weight, pack);
    a.weight = weight->data;
  }
  return packed;
}

}  // namespace

void rms_norm(const Tensor& result, const Tensor& input, const std::optional<Tensor>& weight, double epsilon) {
  const Checker check("rms_norm");
  const View in = check.view(input, "input"), out = check.view(result, "result");
  Arguments a{};
  bool packed = common(check, in, check.view(weight, "weight"), a);
  check.dtype(out, in.dtype);
  check.same_sizes(out, in);
  packed = packed && packable(out, in.dtype == ScalarType::Half ? 8 : 4);
  a.out = out.data, a.out_rows = check.rows(out), a.in = in.data, a.in_rows = check.rows(in);
  a.epsilon = static_cast<float>(epsilon);
  if (a.rows == 0 || a.columns == 0) return;
  in.device < 0 ? norm_on_cpu<false>(in, a) : launch_norm(rms_kernels, in, a, packed);
}

void fused_add_rms_norm(
    const Tensor& input, const Tensor& residual, const std::optional<Tensor>& weight, double epsilon) {
  const Checker check("fused_add_rms_norm");
  const View in = check.view(input, "input"), added = check.view(residual, "residual");
  Arguments a{};
  bool packed = common(check, in, check.view(weight, "weight"), a);
  check.dtype(added, in.dtype);
  check.same_sizes(added, in);
  packed = packed && packable(added, in.dtype == ScalarType::Half ? 8 : 4);
  a.out = in.data, a.in = in.data, a.out_rows = a.in_rows = check.rows(in);
  a.residual = added.data, a.residual_rows = check.rows(added);
  a.epsilon = static_cast<float>(epsilon);
  if (a.rows == 0 || a.columns == 0) return;
  in.device < 0 ? norm_on_cpu<true>(in, a) : launch_norm(fused_kernels, in, a, packed);
}

}  // namespace volta
