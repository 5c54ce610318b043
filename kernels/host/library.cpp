// The schemas of torch.ops.volta and what carries them out. Outputs are arguments, as in upstream's operators, so that a
// graph capture or a memory plan owns every buffer.
#include <torch/csrc/stable/library.h>

#include "driver.h"
#include "operators.h"

namespace {

void prepare(std::int64_t device) { volta::prepare(static_cast<int>(device)); }

}  // namespace

STABLE_TORCH_LIBRARY(volta, m) {
  m.def("rms_norm(Tensor(a!) result, Tensor input, Tensor? weight, float epsilon) -> ()");
  m.def("fused_add_rms_norm(Tensor(a!) input, Tensor(b!) residual, Tensor? weight, float epsilon) -> ()");
  m.def(
      "gemma_rms_norm(Tensor(a!) result, Tensor input, Tensor(b!)? residual, Tensor weight, float epsilon, "
      "float offset=1.0) -> ()");
  m.def("silu_and_mul(Tensor(a!) result, Tensor input) -> ()");
  m.def("gelu_and_mul(Tensor(a!) result, Tensor input) -> ()");
  m.def("gelu_tanh_and_mul(Tensor(a!) result, Tensor input) -> ()");
  m.def(
      "rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!)? key, int head_size, Tensor cos_sin_cache, "
      "bool is_neox, int rope_dim_offset=0, bool inverse=False) -> ()");
  m.def(
      "kv_cache_write(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping, "
      "Tensor k_scale, Tensor v_scale) -> ()");
  m.def(
      "kv_cache_gather(Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor cu_seq_lens, Tensor? seq_starts, "
      "Tensor(a!) key, Tensor(b!) value, Tensor k_scale, Tensor v_scale) -> ()");
  m.def(
      "merge_attention(Tensor(a!) output, Tensor(b!)? output_lse, Tensor partial_output, Tensor partial_lse, bool base2, "
      "Tensor? gate=None) -> ()");
  m.def("dcp_local_seq_lens(Tensor(a!) result, Tensor seq_lens, int dcp, int rank, int interleave) -> ()");
  m.def(
      "dcp_slot_mapping(Tensor(a!) slot_mapping, Tensor positions, Tensor query_start_loc, Tensor block_table, "
      "int block_size, int dcp, int rank, int interleave, Tensor? rows=None) -> ()");
  m.def("weak_ref_tensor(Tensor input) -> Tensor");
  m.def("get_cuda_view_from_cpu_tensor(Tensor cpu_tensor) -> Tensor");
  m.def("prepare(int device) -> ()");
}

#define VOLTA_OPERATORS(m)                                         \
  m.impl("rms_norm", TORCH_BOX(&volta::rms_norm));                 \
  m.impl("fused_add_rms_norm", TORCH_BOX(&volta::fused_add_rms_norm)); \
  m.impl("gemma_rms_norm", TORCH_BOX(&volta::gemma_rms_norm));     \
  m.impl("silu_and_mul", TORCH_BOX(&volta::silu_and_mul));         \
  m.impl("gelu_and_mul", TORCH_BOX(&volta::gelu_and_mul));         \
  m.impl("gelu_tanh_and_mul", TORCH_BOX(&volta::gelu_tanh_and_mul)); \
  m.impl("rotary_embedding", TORCH_BOX(&volta::rotary_embedding)); \
  m.impl("kv_cache_write", TORCH_BOX(&volta::kv_cache_write));     \
  m.impl("kv_cache_gather", TORCH_BOX(&volta::kv_cache_gather));   \
  m.impl("merge_attention", TORCH_BOX(&volta::merge_attention));   \
  m.impl("dcp_local_seq_lens", TORCH_BOX(&volta::dcp_local_seq_lens)); \
  m.impl("dcp_slot_mapping", TORCH_BOX(&volta::dcp_slot_mapping)); \
  m.impl("weak_ref_tensor", TORCH_BOX(&volta::weak_ref_tensor)); \
  m.impl("get_cuda_view_from_cpu_tensor", TORCH_BOX(&volta::get_cuda_view_from_cpu_tensor))

STABLE_TORCH_LIBRARY_IMPL(volta, CPU, m) { VOLTA_OPERATORS(m); }
STABLE_TORCH_LIBRARY_IMPL(volta, CUDA, m) { VOLTA_OPERATORS(m); }
STABLE_TORCH_LIBRARY_IMPL(volta, CompositeExplicitAutograd, m) { m.impl("prepare", TORCH_BOX(&prepare)); }
