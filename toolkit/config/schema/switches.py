"""Group `switches`: which accelerated routes are taken, and what each rolls back to.

A value of null takes the default rule. `alias` is the environment name that users of the public fork know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional


def switch(alias: str, rolls_back_to: str, default: str) -> Any:
    """Declare one switch: its public alias, its rollback, and the name of its default rule.

    The rules are in planning/switch_values.py: `on_v100`, `on_with_dflash2`, `on_with_e4m3`, `off`.
    """
    metadata = {"alias": alias, "rolls_back_to": rolls_back_to, "default": default}
    return field(default=None, metadata=metadata)


@dataclass
class SwitchesConfig:
    """One field for each accelerated route; `switches=all_off` is the arm that an audit compares with."""

    prefill_gqa: Optional[bool] = switch(
        "VLLM_FLASH_V100_PREFILL_D256_GQA_ARCH_128K_EXPERIMENTAL", "the generic D256 prefill", "on_v100"
    )
    """Prefill kernel specialised for one, two or four local KV heads of dimension 256."""
    prefill_split_kv: Optional[bool] = switch(
        "VLLM_FLASH_V100_PREFILL_DENSE_SPLITKV3", "the unsplit dense prefill", "on_v100"
    )
    """Long prefills split their keys and values into three parts."""
    decode_xqa: Optional[bool] = switch("VLLM_FLASH_V100_DECODE_USE_XQA", "scalar paged decode", "on_v100")
    """Decode with one block per KV head instead of one per query head."""
    e4m3_batch_xqa: Optional[bool] = switch(
        "VLLM_FLASH_V100_E4M3_BATCH_XQA", "one row at a time for E4M3", "on_with_e4m3"
    )
    """Batched decode on an E4M3 cache."""
    e4m3_scalar_fast: Optional[bool] = switch(
        "VLLM_FLASH_V100_E4M3_SCALAR_FAST", "the plain scalar tail", "on_with_e4m3"
    )
    """Fast decoding of the scalar tail of an E4M3 cache."""
    e4m3_grouped_fp32: Optional[bool] = switch(
        "VLLM_FLASH_V100_E4M3_GROUPED_FP32", "ungrouped verification", "on_with_e4m3"
    )
    """Grouped verification of drafts with FP32 partial sums on an E4M3 cache."""
    grouped_verify: Optional[bool] = switch(
        "VLLM_FLASH_V100_DFLASH2_GROUPED_VERIFY", "verification row by row", "on_with_dflash2"
    )
    """A request's draft rows read each KV page once."""
    e4m3_long_attention: Optional[bool] = switch(
        "VLLM_SM70_E4M3_LONG_ATTENTION", "the ordinary E4M3 attention", "on_with_e4m3"
    )
    """Attention route for long E4M3 contexts."""
    nvfp4_qpn2: Optional[bool] = switch("VLLM_SM70_NVFP4_QPN2", "the dequantising projection", "on_with_dflash2")
    """Projection kernel for NVFP4 weights with few rows."""
    nvfp4_qpn2_prefill: Optional[bool] = switch(
        "VLLM_SM70_NVFP4_QPN2_PREFILL", "the dequantising projection at 1024 rows and more", "on_with_dflash2"
    )
    """Projection route for NVFP4 weights at 1024 rows and more."""
    fp8_qpn8: Optional[bool] = switch(
        "VLLM_SM70_FP8_QPN8", "reconstructing FP8 weights before a product", "on_with_dflash2"
    )
    """Projection kernel for FP8 weights with few rows."""
    dflash2_qpn8_rerank: Optional[bool] = switch(
        "VLLM_SM70_DFLASH2_QPN8_RERANK", "candidates from the dense output head", "on_with_dflash2"
    )
    """Draft candidates by an FP8 output head, then exact products for those candidates."""
