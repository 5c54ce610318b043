"""What each of upstream's operators is here: ours, a fixed answer, not needed, or not yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from toolkit.plugin.operators.schemas import Schema


class Kind(Enum):
    """How an operator is defined."""

    native = "implemented"
    answer = "answers"
    unneeded = "not needed"
    missing = "not yet"


@dataclass(frozen=True)
class State:
    """An operator's kind, and in words why or by what."""

    kind: Kind
    note: str
    answer: object = None


SAME = (
    "_C::rms_norm",
    "_C::fused_add_rms_norm",
    "_C::silu_and_mul",
    "_C::gelu_and_mul",
    "_C::gelu_tanh_and_mul",
    "_C::mul_and_silu",
    "_C::fatrelu_and_mul",
    "_C::silu_and_mul_with_clamp",
    "_C::swigluoai_and_mul",
    "_C::rotary_embedding",
    "_C::vocab_parallel_embedding",
    "_C::weak_ref_tensor",
    "_C::get_cuda_view_from_cpu_tensor",
    "_moe_C::topk_softmax",
    "_moe_C::topk_sigmoid",
    "_moe_C::topk_softplus_sqrt",
    "_moe_C::moe_align_block_size",
    "_moe_C::batched_moe_align_block_size",
    "_moe_C::moe_lora_align_block_size",
    "_moe_C::moe_sum",
    "_moe_C::shuffle_rows",
    "_moe_C::grouped_topk",
    "_C::apply_repetition_penalties_",
    "_C::merge_attn_states",
    "_C_cache_ops::reshape_and_cache",
    "_C_cache_ops::reshape_and_cache_flash",
    "_C_cache_ops::swap_blocks",
    "_C_cache_ops::swap_blocks_batch",
)
"""Operators that torch.ops.volta has under the same name, with the same arguments."""

ANSWERS: Mapping[str, State] = {
    name: State(Kind.answer, f"{answer}: {why}", answer)
    for name, answer, why in (
        ("_C::cutlass_scaled_mm_supports_fp8", False, "SM70 has no FP8 matrix instructions"),
        ("_C::cutlass_scaled_mm_supports_block_fp8", False, "SM70 has no FP8 matrix instructions"),
        ("_C::cutlass_scaled_mm_supports_fp4", False, "SM70 has no FP4 matrix instructions"),
        ("_C::cutlass_group_gemm_supported", False, "CUTLASS grouped GEMM needs capability 9.0"),
        ("_C::mxfp4_experts_quant_supported", False, "it needs capability 10.0"),
        ("_moe_C::moe_permute_unpermute_supported", False, "the Triton experts need no permutation"),
        ("_C::machete_supported_schedules", [], "Machete needs capability 9.0"),
    )
}

GROUPS: tuple[tuple[str, Kind, str], ...] = (
    (r"_C::(cutlass_|get_cutlass_|machete_|sm100_)", Kind.unneeded, "a kernel of capability 7.5 or newer"),
    (
        r"_C::.*(marlin|gptq|awq)",
        Kind.unneeded,
        "quantized projections take other routes",
    ),
    (r"_moe_C::moe_wna16", Kind.unneeded, "quantized experts take other routes"),
    (
        r"_C::.*(kimi|deepseek|minimax|kda|dsv3|sm100|hadacore|situ|ngram)",
        Kind.unneeded,
        "a model that needs a newer GPU",
    ),
    (r"_C::direct_dcp_", Kind.unneeded, "DCP of MLA models over symmetric memory"),
    (
        r"_C_cache_ops::(.*mla|.*indexer|hisparse_|.*nvfp4|cp_gather_and_upconvert)",
        Kind.unneeded,
        "MLA and sparse attention",
    ),
    (r"_C_custom_ar::", Kind.unneeded, "NCCL reduces; upstream's kernels need its own library"),
    (r"_C::.*quant|_C::scaled_fp4", Kind.unneeded, "activations are not quantized on SM70"),
    (r"_C::(cooperative_topk|fp32_router_gemm|fused_gdn_)", Kind.unneeded, "a kernel of capability 8.0 or newer"),
    (r"_C::selective_scan_fwd", Kind.missing, "Mamba-1 models"),
    (r"_C::(persistent_topk|top_k_per_row)", Kind.missing, "Qwen4Exp's sparse attention"),
)
REST = State(Kind.missing, "no route of the models that serve calls it")


def state_of(schema: Schema) -> State:
    """The state of one operator."""
    name = schema.qualified
    if name in SAME:
        return State(Kind.native, f"torch.ops.volta.{schema.name}")
    if name in ANSWERS:
        return ANSWERS[name]
    return next((State(kind, note) for pattern, kind, note in GROUPS if re.match(pattern, name)), REST)
