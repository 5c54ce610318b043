"""All 256 codes through the helper of the attention kernel, by Triton's interpreter; run with TRITON_INTERPRET=1."""

import json

import torch
import triton
import triton.language as tl
from vllm.v1.attention.ops import triton_unified_attention as upstream

from toolkit.plugin.patches import source, triton_e4m3


@triton.jit
def decode(codes, out, N: tl.constexpr):  # noqa: N803 - a constexpr
    at = tl.arange(0, N)
    tl.store(out + at, triton_e4m3._e4m3_to_half(tl.load(codes + at)))


codes = torch.arange(256, dtype=torch.uint8)
got = torch.empty(256, dtype=torch.float16)
decode[(1,)](codes, got, N=256)
table = codes.view(torch.float8_e4m3fn).to(torch.float16)
try:
    source.require(triton_e4m3.apply, triton_e4m3.WRITTEN_FOR)
    refusal = ""
except RuntimeError as error:
    refusal = str(error)
print(
    json.dumps(
        {
            "different": [c for c in range(256) if got[c] != table[c] and not (got[c].isnan() and table[c].isnan())],
            "signs": bool((torch.signbit(got) == torch.signbit(table))[~table.isnan()].all()),
            "nan": [c for c in range(256) if got[c].isnan()],
            "written_for": source.digest(upstream._cast_kv_tile.fn) == triton_e4m3.WRITTEN_FOR,
            "refusal": refusal,
        }
    )
)
