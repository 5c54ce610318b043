// The operators, each for CPU and CUDA tensors; kernels/host/library.cpp gives their schemas.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>

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

void rotary_embedding(
    const Tensor& positions, const Tensor& query, const std::optional<Tensor>& key, std::int64_t head_size,
    const Tensor& cos_sin_cache, bool is_neox, std::int64_t rope_dim_offset, bool inverse);

void kv_cache_write(
    const Tensor& key, const Tensor& value, const Tensor& key_cache, const Tensor& value_cache, const Tensor& slot_mapping,
    const Tensor& k_scale, const Tensor& v_scale);
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

Tensor weak_ref_tensor(const Tensor& input);
Tensor get_cuda_view_from_cpu_tensor(const Tensor& cpu_tensor);

}  // namespace volta
