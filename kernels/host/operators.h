// The operators, each for CPU and CUDA tensors; kernels/host/library.cpp gives their schemas.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "text.h"

namespace volta {

using torch::stable::Tensor;

void rms_norm(const Tensor& result, const Tensor& input, const std::optional<Tensor>& weight, double epsilon);
void fused_add_rms_norm(
    const Tensor& input, const Tensor& residual, const std::optional<Tensor>& weight, double epsilon);
void gemma_rms_norm(
    const Tensor& result, const Tensor& input, const std::optional<Tensor>& residual, const Tensor& weight, double epsilon,
    double offset);

void silu_and_mul(const Tensor& result, const Tensor& input);
void gelu_and_mul(const Tensor& result, const Tensor& input);
void gelu_tanh_and_mul(const Tensor& result, const Tensor& input);
void mul_and_silu(const Tensor& result, const Tensor& input);
void fatrelu_and_mul(const Tensor& result, const Tensor& input, double threshold);
void silu_and_mul_with_clamp(const Tensor& result, const Tensor& input, double limit, double alpha, double beta);
void swigluoai_and_mul(const Tensor& result, const Tensor& input, double alpha, double limit);

void rotary_embedding(
    const Tensor& positions, const Tensor& query, const std::optional<Tensor>& key, std::int64_t head_size,
    const Tensor& cos_sin_cache, bool is_neox, std::int64_t rope_dim_offset, bool inverse);

void kv_cache_write(
    const Tensor& key, const Tensor& value, const Tensor& key_cache, const Tensor& value_cache, const Tensor& slot_mapping,
    const Tensor& k_scale, const Tensor& v_scale);
void reshape_and_cache_flash(
    const Tensor& key, const Tensor& value, const Tensor& key_cache, const Tensor& value_cache, const Tensor& slots,
    const Text& kv_cache_dtype, const Tensor& k_scale, const Tensor& v_scale);
void reshape_and_cache(
    const Tensor& key, const Tensor& value, const Tensor& key_cache, const Tensor& value_cache, const Tensor& slots,
    const Text& kv_cache_dtype, const Tensor& k_scale, const Tensor& v_scale);
void kv_cache_gather(
    const Tensor& key_cache, const Tensor& value_cache, const Tensor& block_table, const Tensor& cu_seq_lens,
    const std::optional<Tensor>& seq_starts, const Tensor& key, const Tensor& value, const Tensor& k_scale,
    const Tensor& v_scale);

void merge_attention(
    const Tensor& output, const std::optional<Tensor>& output_lse, const Tensor& partial_output, const Tensor& partial_lse,
    bool base2, const std::optional<Tensor>& gate);

void dcp_local_seq_lens(
    const Tensor& result, const Tensor& seq_lens, std::int64_t dcp, std::int64_t rank, std::int64_t interleave);
void dcp_slot_mapping(
    const Tensor& slot_mapping, const Tensor& positions, const Tensor& query_start_loc, const Tensor& block_table,
    std::int64_t block_size, std::int64_t dcp, std::int64_t rank, std::int64_t interleave, const std::optional<Tensor>& rows);
void merge_attn_states(
    const Tensor& output, const std::optional<Tensor>& output_lse, const Tensor& prefix_output, const Tensor& prefix_lse,
    const Tensor& suffix_output, const Tensor& suffix_lse, std::optional<std::int64_t> prefill_tokens_with_context,
    const std::optional<Tensor>& output_scale);

void swap_blocks(const Tensor& src, const Tensor& dst, std::int64_t block_size_in_bytes, const Tensor& block_mapping);
void swap_blocks_batch(const Tensor& src_ptrs, const Tensor& dst_ptrs, const Tensor& sizes, bool is_src_access_order_any);

void topk_topp_support(
    const Tensor& tokens, const Tensor& probabilities, const Tensor& counts, const Tensor& logits, const Tensor& temperature,
    const Tensor& top_k, const Tensor& top_p, const std::optional<Tensor>& request_of_row);
void compact_rejection(
    const Tensor& sampled, const Tensor& num_sampled, const Tensor& draft_tokens, const Tensor& tokens,
    const Tensor& probabilities, const Tensor& counts, const Tensor& accept_uniform, const Tensor& sample_uniform,
    const std::optional<Tensor>& draft_probabilities);

Tensor weak_ref_tensor(const Tensor& input);
Tensor get_cuda_view_from_cpu_tensor(const Tensor& cpu_tensor);

void topk_softmax(
    const Tensor& weights, const Tensor& ids, const Tensor& source_rows, const Tensor& gating, bool renormalise,
    const std::optional<Tensor>& bias, const std::optional<Tensor>& padding);
void topk_sigmoid(
    const Tensor& weights, const Tensor& ids, const Tensor& source_rows, const Tensor& gating, bool renormalise,
    const std::optional<Tensor>& bias, double factor, const std::optional<Tensor>& padding);
void topk_softplus_sqrt(
    const Tensor& weights, const Tensor& ids, const Tensor& source_rows, const Tensor& gating, bool renormalise,
    double factor, const std::optional<Tensor>& bias, const std::optional<Tensor>& tokens,
    const std::optional<Tensor>& table, const std::optional<Tensor>& padding, const std::optional<Tensor>& image_bias,
    std::int64_t image_start);
std::tuple<Tensor, Tensor> grouped_topk(
    const Tensor& scores, std::int64_t groups, std::int64_t winning_groups, std::int64_t k, bool renormalise, double factor,
    const Tensor& bias, std::int64_t scoring);

void apply_repetition_penalties_(
    const Tensor& logits, const Tensor& prompt_mask, const Tensor& output_mask, const Tensor& penalties);

void moe_align_block_size(
    const Tensor& ids, std::int64_t experts, std::int64_t block_size, const Tensor& sorted, const Tensor& block_experts,
    const Tensor& total, const std::optional<Tensor>& map, const std::optional<Tensor>& scatter);
void moe_lora_align_block_size(
    const Tensor& ids, const Tensor& token_adapter, std::int64_t experts, std::int64_t block_size, std::int64_t max_loras,
    std::int64_t max_tokens, std::int64_t max_blocks, const Tensor& sorted, const Tensor& block_experts,
    const Tensor& total, const Tensor& enabled, const Tensor& adapters, const std::optional<Tensor>& map);
void batched_moe_align_block_size(
    std::int64_t max_tokens, std::int64_t block_size, const Tensor& counts, const Tensor& sorted,
    const Tensor& block_experts, const Tensor& total);
void moe_sum(
    const Tensor& input, const Tensor& output, const std::optional<Tensor>& ids, const std::optional<Tensor>& map);

void vocab_parallel_embedding(
    const Tensor& out, const Tensor& ids, const Tensor& weight, std::int64_t org_start, std::int64_t org_end,
    std::int64_t org_padding, std::int64_t added_start, std::int64_t added_end);
void shuffle_rows(const Tensor& input, const Tensor& map, const Tensor& output);

}  // namespace volta
