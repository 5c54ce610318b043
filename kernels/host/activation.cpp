// Gated activations: checks, launch, and the CPU implementation. The contract is in kernels/cuda/activation.cu.
#include <torch/headeronly/util/Half.h>

#include <cmath>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// The argument of the kernels, as in activation.cu.
struct Arguments {
  void* out;
  Rows out_rows;
  const void* in;
  Rows in_rows;
  int columns;
};

float silu(float x) { return x / (1.0f + std::exp(-x)); }
float gelu(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f)); }
float gelu_tanh(float x) {
  return 0.5f * x * (1.0f + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}

// One activation: its name, its kernels (fp16 in packs, fp16 alone, fp32 in packs, fp32 alone), and its formula.
struct Activation {
  const char* op;
  Kernel kernels[4];
  float (*of)(float);
};

#define VOLTA_ACTIVATION(name)                                                         \
  {#name "_and_mul",                                                                   \
   {{"activation", #name "_and_mul_f16_f16_rows8_sm70"},                               \
    {"activation", #name "_and_mul_f16_f16_rows1_sm70"},                               \
    {"activation", #name "_and_mul_f32_f32_rows4_sm70"},                               \
    {"activation", #name "_and_mul_f32_f32_rows1_sm70"}},                              \
   name}
Activation silu_activation = VOLTA_ACTIVATION(silu);
Activation gelu_activation = VOLTA_ACTIVATION(gelu);
Activation gelu_tanh_activation = VOLTA_ACTIVATION(gelu_tanh);
#undef VOLTA_ACTIVATION

template <typename T>
void on_cpu(const Activation& activation, const Arguments& a, std::int64_t rows) {
  parallel(rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* gate = static_cast<const T*>(a.in) + row_offset(a.in_rows, row);
      const T* up = gate + a.columns;
      T* out = static_cast<T*>(a.out) + row_offset(a.out_rows, row);
      for (int i = 0; i < a.columns; ++i) {
        const T act = static_cast<T>(activation.of(static_cast<float>(gate[i])));
        out[i] = static_cast<T>(static_cast<float>(act) * static_cast<float>(up[i]));
      }
    }
  });
}

void launch_activation(Activation& activation, const View& in, const View& out, const Arguments& a, std::int64_t rows) {
  const bool half = in.dtype == ScalarType::Half;
  const int pack = half ? 8 : 4;
  const bool packed = a.columns % pack == 0 && packable(in, pack) && packable(out, pack);
  const std::int64_t packs = packed ? a.columns / pack : a.columns;
  const std::int64_t parts = (packs + 255) / 256;
  Shape shape;
  shape.grid_x = static_cast<unsigned>(rows);
  shape.grid_y = static_cast<unsigned>(parts);
  shape.block_x = static_cast<unsigned>(((packs + parts - 1) / parts + 31) / 32 * 32);
  launch(activation.kernels[(half ? 0 : 2) + (packed ? 0 : 1)], in.device, shape, a);
}

void act_and_mul(Activation& activation, const Tensor& result, const Tensor& input) {
  const Checker check(activation.op);
  const View in = check.view(input, "input"), out = check.view(result, "result");
  check.float_type(in);
  check.dtype(out, in.dtype);
  check.same_device(out, in);
  check.that(in.dim >= 1, "input must have at least one dimension");
  check.that(in.size(-1) % 2 == 0, "the last dimension of input must be even: gate, then up");
  check.dim(out, in.dim);
  for (int i = 0; i + 1 < in.dim; ++i) check.size(out, i, in.sizes[i]);
  check.size(out, -1, in.size(-1) / 2);
  const std::int64_t rows = check.small(row_count(in), "the number of rows");
  Arguments a{out.data, check.rows(out), in.data, check.rows(in), 0};
  a.columns = check.small(in.size(-1), "the last dimension of input") / 2;
  check.that(a.columns <= 65535 * 256, "the last dimension of input must be at most 33553920");
  if (rows == 0 || a.columns == 0) return;
  if (in.device >= 0) return launch_activation(activation, in, out, a, rows);
  in.dtype == ScalarType::Half ? on_cpu<c10::Half>(activation, a, rows) : on_cpu<float>(activation, a, rows);
}

}  // namespace

void silu_and_mul(const Tensor& result, const Tensor& input) { act_and_mul(silu_activation, result, input); }
void gelu_and_mul(const Tensor& result, const Tensor& input) { act_and_mul(gelu_activation, result, input); }
void gelu_tanh_and_mul(const Tensor& result, const Tensor& input) { act_and_mul(gelu_tanh_activation, result, input); }

}  // namespace volta
