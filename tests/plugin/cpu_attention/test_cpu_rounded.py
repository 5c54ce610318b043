"""What the cache holds where upstream's attention stays and our rounding comes before its cache write."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm")

import torch
from cpu_backend_step import KV_HEADS, SIZE, TOKENS, Layer, Step, impl_of
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

from toolkit.plugin.cpu_attention.backend import CpuFp8AttentionBackend
from toolkit.plugin.cpu_attention.rounded import CpuRoundedAttentionBackend

if not (torch.cpu._is_avx512_supported() or torch.cpu._is_amx_tile_supported()):
    pytest.skip("upstream has no FP8 cache on this CPU", allow_module_level=True)

FORMATS = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def stored_by(backend, values, dtype="fp8_e4m3", scales=(1.0, 1.0)):
    """The bytes that a backend's cache write leaves of values [2 * TOKENS, SIZE], as two whole blocks."""
    kv_cache = torch.zeros(3, KV_HEADS, TOKENS, 2 * SIZE, dtype=torch.uint8)
    both = values.unsqueeze(1).repeat(1, KV_HEADS, 1)
    slots = torch.arange(TOKENS, 3 * TOKENS)
    impl_of(backend, dtype).do_kv_cache_update(Layer(scales), both, both, kv_cache, slots)
    return kv_cache[1:].reshape(2, KV_HEADS, 2, TOKENS, SIZE)


def spread(count, dtype):
    """Numbers of all sizes that the formats tell apart, and beyond both ends."""
    generator = torch.Generator().manual_seed(0)
    powers = torch.empty(count).uniform_(-14, 12, generator=generator)
    signs = torch.randint(0, 2, (count,), generator=generator) * 2 - 1
    return (signs * torch.exp2(powers)).to(dtype)


def test_upstream_still_rounds_towards_zero_as_it_stores():
    """Why we round at all, and why docs/evidence has a record of each. When this fails, measure upstream anew."""
    torch.manual_seed(0)
    values = torch.randn(2 * TOKENS, SIZE) * 4
    upstream, ours = (stored_by(backend, values)[:, :, 1] for backend in (CPUAttentionBackend, CpuFp8AttentionBackend))
    steps = ours.int() - upstream.int()
    assert set(steps.unique().tolist()) == {0, 1}, "one step nearer to zero, or the same"
    assert 0.4 < float((steps == 1).float().mean()) < 0.6


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.0625, 4.0), (0.0731, 0.000123), (300.0, 1e-4)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_byte_is_the_nearest(form, dtype, scales):
    """Against torch's own conversion of value / scale, for all sizes and both ends; 0 and -0 are one number."""
    values = spread(2 * TOKENS * SIZE, dtype).reshape(2 * TOKENS, SIZE)
    stored = stored_by(CpuRoundedAttentionBackend, values, form, scales)
    largest = torch.finfo(FORMATS[form]).max
    for kind, scale in enumerate(scales):
        nearest = (values.float() / scale).clamp(-largest, largest).to(FORMATS[form]).float()
        codes = stored[:, :, kind].reshape(2, KV_HEADS, -1).view(FORMATS[form]).float()
        for head in range(KV_HEADS):
            assert torch.equal(codes[:, head].flatten().sort().values, nearest.flatten().sort().values)


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_what_is_read_is_what_ours_in_torch_reads(form):
    """Upstream's reading of the rounded cache with a layer's scales, on numbers that are none of the format's."""
    step = Step()
    step.keys, step.values = step.keys + 0.013, step.values - 0.0171
    rounded, torch_only = (
        step.run(backend, form, scales=(0.37, 2.3)) for backend in (CpuRoundedAttentionBackend, CpuFp8AttentionBackend)
    )
    upstream = step.run(CPUAttentionBackend, form, scales=(0.37, 2.3))
    assert (rounded - torch_only).abs().max() < 2e-5 * torch_only.abs().max()
    assert (upstream - torch_only).abs().max() > 1e-3 * torch_only.abs().max(), "upstream's own differs visibly"


def test_a_cache_that_is_not_fp8_and_encoders_are_upstreams():
    step = Step()
    assert torch.equal(step.run(CpuRoundedAttentionBackend, "auto"), step.run(CPUAttentionBackend, "auto"))
    impl = impl_of(CpuRoundedAttentionBackend, "fp8_e4m3", attn_type=AttentionType.ENCODER_ONLY)
    cache = torch.zeros(2, KV_HEADS, TOKENS, 2 * SIZE, dtype=torch.uint8)
    impl.do_kv_cache_update(Layer(), *torch.ones(2, 1, KV_HEADS, SIZE), cache, torch.zeros(1, dtype=torch.int64))
    assert not cache.any()
