// Gated activations: checks, launch, and the CPU implementation. The contract is in kernels/cuda/activation.cu.
#include <torch/headeronly/util/Half.h>

#include <cmath>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// As in activation.cu.
struct Parameters {
  float limit, alpha, beta;
};

// The argument of the kernels, as in activation.cu.
struct Arguments {
  void* out;
  Rows out_rows;
  const void* in;
  Rows in_rows;
  int columns;
  Parameters parameters;
};

template <typename T>
float rounded(float x) { return static_cast<float>(static_cast<T>(x)); }
float at_most(float x, float limit) { return x > limit ? limit : x; }
float clamped(float x, float limit) { return x < -limit ? -limit : at_most(x, limit); }
float swish(float x, float alpha) { return x / (1.0f + std::exp(-alpha * x)); }

float silu(float x, const Parameters&) { return x / (1.0f + std::exp(-x)); }
float gelu(float x, const Parameters&) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f)); }
float gelu_tanh(float x, const Parameters&) {
  return 0.5f * x * (1.0f + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
float fatrelu(float x, const Parameters& p) { return x <= p.limit ? 0.0f : x; }

// Formulas: a gate and an up to the result before its rounding.
template <float (*act)(float, const Parameters&)>
struct TimesUp {
  template <typename T>
  static float of(float gate, float up, const Parameters& p) { return rounded<T>(act(gate, p)) * up; }
};

struct ClampedSilu {
  template <typename T>
  static float of(float gate, float up, const Parameters& p) {
    const float g = rounded<T>(at_most(gate, p.limit)), u = rounded<T>(clamped(up, p.limit));
    return rounded<T>(swish(g, p.alpha)) * (u + p.beta);
  }
};

struct SwigluOai {
  template <typename T>
  static float of(float gate, float up, const Parameters& p) {
    return swish(at_most(gate, p.limit), p.alpha) * (clamped(up, p.limit) + 1.0f);
  }
};

// Where a row of 2 d has the gate and the up of element i: at gates * d + step * i, and at ups * d + after + step * i.
struct Order {
  int step, gates, ups, after;
  const char* odd;  // what to say of a row that has no such halves
};
constexpr Order kGateUp{1, 0, 1, 0, "the last dimension of input must be even: gate, then up"};
constexpr Order kUpGate{1, 1, 0, 0, "the last dimension of input must be even: up, then gate"};
constexpr Order kPairs{2, 0, 0, 1, "the last dimension of input must be even: gate and up in turn"};

// One activation: its name, its kernels (fp16 in packs, fp16 alone, fp32 in packs, fp32 alone), what its rows look like, and
// its formula for each type.
struct Activation {
  const char* op;
  Kernel kernels[4];
  Order order;
  float (*half)(float, float, const Parameters&);
  float (*single)(float, float, const Parameters&);
};

#define VOLTA_ACTIVATION(name, order, ...)       \
  {#name,                                        \
   {{"activation", #name "_f16_f16_rows8_sm70"},  \
    {"activation", #name "_f16_f16_rows1_sm70"},  \
    {"activation", #name "_f32_f32_rows4_sm70"},  \
    {"activation", #name "_f32_f32_rows1_sm70"}}, \
   order,                                        \
   __VA_ARGS__::of<c10::Half>,                   \
   __VA_ARGS__::of<float>}
Activation silu_activation = VOLTA_ACTIVATION(silu_and_mul, kGateUp, TimesUp<silu>);
Activation gelu_activation = VOLTA_ACTIVATION(gelu_and_mul, kGateUp, TimesUp<gelu>);
Activation gelu_tanh_activation = VOLTA_ACTIVATION(gelu_tanh_and_mul, kGateUp, TimesUp<gelu_tanh>);
Activation second_silu_activation = VOLTA_ACTIVATION(mul_and_silu, kUpGate, TimesUp<silu>);
Activation fatrelu_activation = VOLTA_ACTIVATION(fatrelu_and_mul, kGateUp, TimesUp<fatrelu>);
Activation clamped_activation = VOLTA_ACTIVATION(silu_and_mul_with_clamp, kGateUp, ClampedSilu);
Activation swigluoai_activation = VOLTA_ACTIVATION(swigluoai_and_mul, kPairs, SwigluOai);
#undef VOLTA_ACTIVATION

template <typename T>
void on_cpu(const Activation& activation, const Arguments& a, std::int64_t rows) {
  const auto formula = sizeof(T) == 2 ? activation.half : activation.single;
  const Order& order = activation.order;
  const std::int64_t columns = a.columns;
  parallel(rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* gates = static_cast<const T*>(a.in) + row_offset(a.in_rows, row) + order.gates * columns;
      const T* ups = static_cast<const T*>(a.in) + row_offset(a.in_rows, row) + order.ups * columns + order.after;
      T* out = static_cast<T*>(a.out) + row_offset(a.out_rows, row);
      for (std::int64_t i = 0; i < columns; ++i) {
        const float gate = static_cast<float>(gates[order.step * i]), up = static_cast<float>(ups[order.step * i]);
        out[i] = static_cast<T>(formula(gate, up, a.parameters));
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

void gated(Activation& activation, const Tensor& result, const Tensor& input, const Parameters& parameters = {}) {
  const Checker check(activation.op);
  const View in = check.view(input, "input"), out = check.view(result, "result");
  check.float_type(in);
  check.dtype(out, in.dtype);
  check.same_device(out, in);
  check.that(in.dim >= 1, "input must have at least one dimension");
  check.that(in.size(-1) % 2 == 0, activation.order.odd);
  check.dim(out, in.dim);
  for (int i = 0; i + 1 < in.dim; ++i) check.size(out, i, in.sizes[i]);
  check.size(out, -1, in.size(-1) / 2);
  const std::int64_t rows = check.small(row_count(in), "the number of rows");
  Arguments a{out.data, check.rows(out), in.data, check.rows(in), 0, parameters};
  a.columns = check.small(in.size(-1), "the last dimension of input") / 2;
  check.that(a.columns <= 65535 * 256, "the last dimension of input must be at most 33553920");
  if (rows == 0 || a.columns == 0) return;
  if (in.device >= 0) return launch_activation(activation, in, out, a, rows);
  in.dtype == ScalarType::Half ? on_cpu<c10::Half>(activation, a, rows) : on_cpu<float>(activation, a, rows);
}

// A limit that clamps from both sides. Infinity, which does not clamp, is one.
void clamping(Activation& activation, const Tensor& result, const Tensor& input, const Parameters& parameters) {
  Checker(activation.op).that(parameters.limit >= 0.0f, "limit must be a number from 0 on");
  gated(activation, result, input, parameters);
}

}  // namespace

void silu_and_mul(const Tensor& result, const Tensor& input) { gated(silu_activation, result, input); }
void gelu_and_mul(const Tensor& result, const Tensor& input) { gated(gelu_activation, result, input); }
void gelu_tanh_and_mul(const Tensor& result, const Tensor& input) { gated(gelu_tanh_activation, result, input); }
void mul_and_silu(const Tensor& result, const Tensor& input) { gated(second_silu_activation, result, input); }

void fatrelu_and_mul(const Tensor& result, const Tensor& input, double threshold) {
  gated(fatrelu_activation, result, input, {static_cast<float>(threshold), 0.0f, 0.0f});
}
void silu_and_mul_with_clamp(const Tensor& result, const Tensor& input, double limit, double alpha, double beta) {
  const Parameters parameters{static_cast<float>(limit), static_cast<float>(alpha), static_cast<float>(beta)};
  clamping(clamped_activation, result, input, parameters);
}
void swigluoai_and_mul(const Tensor& result, const Tensor& input, double alpha, double limit) {
  clamping(swigluoai_activation, result, input, {static_cast<float>(limit), static_cast<float>(alpha), 0.0f});
}

}  // namespace volta
