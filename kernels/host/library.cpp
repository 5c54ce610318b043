// The schemas of torch.ops.volta and what carries them out. Outputs are arguments, as in upstream's operators, so that a
// graph capture or a memory plan owns every buffer.
#include <torch/csrc/stable/library.h>

#include <string>

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
  m.def("gelu_and_mul(Tensor(a!) out, Tensor input) -> ()");
  m.def("gelu_tanh_and_mul(Tensor(a!) out, Tensor input) -> ()");
  m.def("mul_and_silu(Tensor(a!) out, Tensor input) -> ()");
  m.def("fatrelu_and_mul(Tensor(a!) out, Tensor input, float threshold) -> ()");
  m.def(
      "silu_and_mul_with_clamp(Tensor(a!) result, Tensor input, float limit, float alpha=1.0, float beta=0.0) -> ()");
  m.def("swigluoai_and_mul(Tensor(a!) out, Tensor input, float alpha=1.702, float limit=7.0) -> ()");
  m.def(
      "rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!)? key, int head_size, Tensor cos_sin_cache, "
      "bool is_neox, int rope_dim_offset=0, bool inverse=False) -> ()");
  m.def(
      "kv_cache_write(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping, "
      "Tensor k_scale, Tensor v_scale) -> ()");
  for (const char* name : {"reshape_and_cache_flash", "reshape_and_cache"})
    m.def((std::string(name) +
           "(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping, "
           "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()")
              .c_str());
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
  m.def(
      "merge_attn_states(Tensor(a!) output, Tensor(b!)? output_lse, Tensor prefix_output, Tensor prefix_lse, "
      "Tensor suffix_output, Tensor suffix_lse, int? prefill_tokens_with_context, Tensor? output_scale=None) -> ()");
  m.def("swap_blocks(Tensor src, Tensor(a!) dst, int block_size_in_bytes, Tensor block_mapping) -> ()");
  m.def("swap_blocks_batch(Tensor src_ptrs, Tensor dst_ptrs, Tensor sizes, bool is_src_access_order_any=False) -> ()");
  m.def("weak_ref_tensor(Tensor input) -> Tensor");
  m.def("get_cuda_view_from_cpu_tensor(Tensor cpu_tensor) -> Tensor");
  m.def(
      "topk_softmax(Tensor(a!) topk_weights, Tensor(b!) topk_indices, Tensor(c!) token_expert_indices, "
      "Tensor gating_output, bool renormalize, Tensor? bias, Tensor? is_padding) -> ()");
  m.def(
      "topk_sigmoid(Tensor(a!) topk_weights, Tensor(b!) topk_indices, Tensor(c!) token_expert_indices, "
      "Tensor gating_output, bool renormalize, Tensor? bias, float routed_scaling_factor, Tensor? is_padding) -> ()");
  m.def(
      "topk_softplus_sqrt(Tensor(a!) topk_weights, Tensor(b!) topk_indices, Tensor(c!) token_expert_indices, "
      "Tensor gating_output, bool renormalize, float routed_scaling_factor, Tensor? bias, Tensor? input_ids, "
      "Tensor? tid2eid, Tensor? is_padding, Tensor? bias_vl=None, int image_sentinel_lo=0) -> ()");
  m.def(
      "grouped_topk(Tensor scores, int n_group, int topk_group, int topk, bool renormalize, float routed_scaling_factor, "
      "Tensor bias, int scoring_func) -> (Tensor, Tensor)");
  m.def(
      "apply_repetition_penalties_(Tensor(a!) logits, Tensor prompt_mask, Tensor output_mask, "
      "Tensor repetition_penalties) -> ()");
  m.def(
      "moe_align_block_size(Tensor topk_ids, int num_experts, int block_size, Tensor(a!) sorted_token_ids, "
      "Tensor(b!) experts_ids, Tensor(c!) num_tokens_post_pad, Tensor? maybe_expert_map, "
      "Tensor(d!)? scatter_idx=None) -> ()");
  m.def(
      "moe_lora_align_block_size(Tensor topk_ids, Tensor token_lora_mapping, int num_experts, int block_size, "
      "int max_loras, int max_num_tokens_padded, int max_num_m_blocks, Tensor(a!) sorted_token_ids, "
      "Tensor(b!) experts_ids, Tensor(c!) num_tokens_post_pad, Tensor(d!) adapter_enabled, Tensor(e!) lora_ids, "
      "Tensor? maybe_expert_map) -> ()");
  m.def(
      "batched_moe_align_block_size(int max_tokens_per_batch, int block_size, Tensor expert_num_tokens, "
      "Tensor(a!) sorted_token_ids, Tensor(b!) experts_ids, Tensor(c!) num_tokens_post_pad) -> ()");
  m.def("moe_sum(Tensor input, Tensor(a!) output, Tensor? topk_ids=None, Tensor? expert_map=None) -> ()");
  m.def(
      "vocab_parallel_embedding(Tensor(a!) out, Tensor input_ids, Tensor weight, int org_vocab_start_index, "
      "int org_vocab_end_index, int num_org_vocab_padding, int added_vocab_start_index, int added_vocab_end_index) -> ()");
  m.def("shuffle_rows(Tensor input_tensor, Tensor dst2src_map, Tensor(a!) output_tensor) -> ()");
  m.def(
      "topk_topp_support(Tensor(a!) tokens, Tensor(b!) probabilities, Tensor(c!) counts, Tensor logits, "
      "Tensor temperature, Tensor top_k, Tensor top_p, Tensor? request_of_row=None) -> ()");
  m.def(
      "compact_rejection(Tensor(a!) sampled, Tensor(b!) num_sampled, Tensor draft_tokens, Tensor tokens, "
      "Tensor probabilities, Tensor counts, Tensor accept_uniform, Tensor sample_uniform, "
      "Tensor? draft_probabilities=None) -> ()");
  m.def("prepare(int device) -> ()");
}

#define VOLTA_OPERATORS(m)                                         \
  m.impl("rms_norm", TORCH_BOX(&volta::rms_norm));                 \
  m.impl("fused_add_rms_norm", TORCH_BOX(&volta::fused_add_rms_norm)); \
  m.impl("gemma_rms_norm", TORCH_BOX(&volta::gemma_rms_norm));     \
  m.impl("silu_and_mul", TORCH_BOX(&volta::silu_and_mul));         \
  m.impl("gelu_and_mul", TORCH_BOX(&volta::gelu_and_mul));         \
  m.impl("gelu_tanh_and_mul", TORCH_BOX(&volta::gelu_tanh_and_mul)); \
  m.impl("mul_and_silu", TORCH_BOX(&volta::mul_and_silu));         \
  m.impl("fatrelu_and_mul", TORCH_BOX(&volta::fatrelu_and_mul));   \
  m.impl("silu_and_mul_with_clamp", TORCH_BOX(&volta::silu_and_mul_with_clamp)); \
  m.impl("swigluoai_and_mul", TORCH_BOX(&volta::swigluoai_and_mul)); \
  m.impl("rotary_embedding", TORCH_BOX(&volta::rotary_embedding)); \
  m.impl("kv_cache_write", TORCH_BOX(&volta::kv_cache_write));     \
  m.impl("reshape_and_cache_flash", TORCH_BOX(&volta::reshape_and_cache_flash)); \
  m.impl("reshape_and_cache", TORCH_BOX(&volta::reshape_and_cache)); \
  m.impl("kv_cache_gather", TORCH_BOX(&volta::kv_cache_gather));   \
  m.impl("merge_attention", TORCH_BOX(&volta::merge_attention));   \
  m.impl("dcp_local_seq_lens", TORCH_BOX(&volta::dcp_local_seq_lens)); \
  m.impl("dcp_slot_mapping", TORCH_BOX(&volta::dcp_slot_mapping)); \
  m.impl("merge_attn_states", TORCH_BOX(&volta::merge_attn_states)); \
  m.impl("swap_blocks", TORCH_BOX(&volta::swap_blocks)); \
  m.impl("swap_blocks_batch", TORCH_BOX(&volta::swap_blocks_batch)); \
  m.impl("topk_topp_support", TORCH_BOX(&volta::topk_topp_support)); \
  m.impl("compact_rejection", TORCH_BOX(&volta::compact_rejection)); \
  m.impl("weak_ref_tensor", TORCH_BOX(&volta::weak_ref_tensor)); \
  m.impl("get_cuda_view_from_cpu_tensor", TORCH_BOX(&volta::get_cuda_view_from_cpu_tensor)); \
  m.impl("topk_softmax", TORCH_BOX(&volta::topk_softmax)); \
  m.impl("topk_sigmoid", TORCH_BOX(&volta::topk_sigmoid)); \
  m.impl("topk_softplus_sqrt", TORCH_BOX(&volta::topk_softplus_sqrt)); \
  m.impl("grouped_topk", TORCH_BOX(&volta::grouped_topk)); \
  m.impl("apply_repetition_penalties_", TORCH_BOX(&volta::apply_repetition_penalties_)); \
  m.impl("moe_align_block_size", TORCH_BOX(&volta::moe_align_block_size)); \
  m.impl("moe_lora_align_block_size", TORCH_BOX(&volta::moe_lora_align_block_size)); \
  m.impl("batched_moe_align_block_size", TORCH_BOX(&volta::batched_moe_align_block_size)); \
  m.impl("moe_sum", TORCH_BOX(&volta::moe_sum)); \
  m.impl("vocab_parallel_embedding", TORCH_BOX(&volta::vocab_parallel_embedding)); \
  m.impl("shuffle_rows", TORCH_BOX(&volta::shuffle_rows))

STABLE_TORCH_LIBRARY_IMPL(volta, CPU, m) { VOLTA_OPERATORS(m); }
STABLE_TORCH_LIBRARY_IMPL(volta, CUDA, m) { VOLTA_OPERATORS(m); }
STABLE_TORCH_LIBRARY_IMPL(volta, CompositeExplicitAutograd, m) { m.impl("prepare", TORCH_BOX(&prepare)); }
