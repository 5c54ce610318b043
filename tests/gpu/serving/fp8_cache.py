"""What attention reads of keys and values that an FP8 cache held.

As engine=v100 does it. kernels/cuda/kv_cache.cu writes: float16 (after RoPE), divided by the layer's scale in float32,
to the nearest code, ties to even, saturating, NaN kept. Upstream's attention kernel reads (`_cast_kv_tile`): the code's
value times the scale in float32, to float16. Every key and value goes that way, a prompt's own included, as all are
written before any is read; queries and softmax weights stay float16.
"""

import torch

FORMATS = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


def held(values, kv, scale=1.0):
    """`values` of any shape as they come back from a cache of `kv`, in their own type; scale: float32, above zero."""
    dtype = FORMATS[kv]
    largest = torch.finfo(dtype).max
    quotients = values.to(torch.float16).float() / scale
    codes = quotients.clamp(-largest, largest).to(dtype)
    return (codes.float() * scale).to(torch.float16).to(values.dtype)
