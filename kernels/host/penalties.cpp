// apply_repetition_penalties_: checks, launch, and the CPU implementation. The contract is in kernels/cuda/penalties.cu.
#include <torch/headeronly/util/Half.h>

#include <algorithm>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// The argument of the kernels, as in penalties.cu.
struct Arguments {
  void* logits;
  long long logit_stride;
  const unsigned char* prompt_mask;
  const unsigned char* output_mask;
  const void* penalties;
  long long rows;
  long long words;
};

// [fp16, fp32] x [in packs, alone]
#define VOLTA_KERNEL(types, words) {"penalties", "apply_repetition_penalties_" types "_words" words "_sm70"}
Kernel kernels[2][2] = {
    {VOLTA_KERNEL("f16_f16", "8"), VOLTA_KERNEL("f16_f16", "1")}, {VOLTA_KERNEL("f32_f32", "4"), VOLTA_KERNEL("f32_f32", "1")}};
#undef VOLTA_KERNEL

template <typename T>
void on_cpu(const Arguments& a) {
  parallel(a.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* logits = static_cast<T*>(a.logits) + row * a.logit_stride;
      const float penalty = static_cast<float>(static_cast<const T*>(a.penalties)[row]);
      for (std::int64_t i = 0; i < a.words; ++i) {
        if ((a.prompt_mask[row * a.words + i] | a.output_mask[row * a.words + i]) == 0) continue;
        const float x = static_cast<float>(logits[i]);
        logits[i] = static_cast<T>(x > 0 ? x / penalty : x * penalty);
      }
    }
  });
}

const unsigned char* mask_of(const Checker& check, const View& mask, const View& logits) {
  check.dtype(mask, ScalarType::Bool);
  check.dim(mask, 2);
  check.size(mask, 0, logits.size(0));
  check.size(mask, 1, logits.size(1));
  check.contiguous(mask);
  check.same_device(mask, logits);
  return mask.as<const unsigned char>();
}

}  // namespace

void apply_repetition_penalties_(
    const Tensor& logits_, const Tensor& prompt_mask_, const Tensor& output_mask_, const Tensor& penalties_) {
  const Checker check("apply_repetition_penalties_");
  const View logits = check.view(logits_, "logits"), penalties = check.view(penalties_, "repetition_penalties");
  const View prompt_mask = check.view(prompt_mask_, "prompt_mask"), output_mask = check.view(output_mask_, "output_mask");
  check.float_type(logits);
  check.dim(logits, 2);
  check.unit_stride(logits);
  check.vector(penalties, logits.dtype, logits.size(0), logits);
  Arguments a{};
  a.prompt_mask = mask_of(check, prompt_mask, logits), a.output_mask = mask_of(check, output_mask, logits);
  a.logits = logits.data, a.logit_stride = logits.stride(0), a.penalties = penalties.data;
  a.rows = check.small(logits.size(0), "the number of rows"), a.words = logits.size(1);
  if (a.rows == 0 || a.words == 0) return;
  const bool half = logits.dtype == ScalarType::Half;
  if (logits.device < 0) return half ? on_cpu<c10::Half>(a) : on_cpu<float>(a);
  const int pack = half ? 8 : 4;
  const bool packed = a.words % pack == 0 && packable(logits, pack) && packable(prompt_mask, pack) &&
                      packable(output_mask, pack);
  const std::int64_t items = a.words / (packed ? pack : 1);
  Shape shape;
  shape.block_x = 256;
  shape.grid_x = static_cast<unsigned>(a.rows);
  shape.grid_y = static_cast<unsigned>(std::min<std::int64_t>((items + 1023) / 1024, 1024));  // four items a thread
  launch(kernels[half ? 0 : 1][packed ? 0 : 1], logits.device, shape, a);
}

}  // namespace volta
