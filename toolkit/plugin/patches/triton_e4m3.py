"""Lets upstream's attention kernel read E4M3 codes from a cache of bytes.

Upstream lacks: a reader for FP8 caches on GPUs whose Triton has no E4M3 type (below capability 8.9).
Replaced: the kernel's helper `_cast_kv_tile`, which Triton looks up by name when it compiles the kernel.
Method: an E4M3 code shifted left by 7 is a half with the same mantissa and an exponent that is 15 - 7 = 8 too small,
subnormals included, so one exact multiplication by 2^8 gives the value; the code 0x7F of either sign is NaN.
"""

from __future__ import annotations

from vllm.triton_utils import tl, triton
from vllm.v1.attention.ops import triton_unified_attention as upstream

from toolkit.plugin.patches import source

WRITTEN_FOR = "c75f7e20b8ca2890"


@triton.jit
def _e4m3_to_half(codes):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    magnitude = (codes & 0x7F).to(tl.uint16)
    bits = (magnitude << 7) | ((codes & 0x80).to(tl.uint16) << 8)
    value = bits.to(tl.float16, bitcast=True) * 256.0
    return tl.where(magnitude == 0x7F, float("nan"), value)


@triton.jit  # type: ignore[untyped-decorator]
def _cast_kv_tile(data, Q, tensor_scale, KV_QUANT_MODE: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202, N803
    """A tile of the cache in Q's type: bytes are E4M3 codes, everything else as upstream reads it."""
    if KV_QUANT_MODE == 1:
        if data.dtype == tl.uint8:
            return (_e4m3_to_half(data).to(tl.float32) * tl.load(tensor_scale)).to(Q.dtype)
        return (data.to(tl.float32) * tl.load(tensor_scale)).to(Q.dtype)
    return data.to(Q.dtype)


def apply() -> None:
    """Put it in place, once, before the kernel is compiled. Raises RuntimeError on another upstream source."""
    if upstream._cast_kv_tile is _cast_kv_tile:
        return
    source.require(upstream._cast_kv_tile.fn, WRITTEN_FOR)
    upstream._cast_kv_tile = _cast_kv_tile
