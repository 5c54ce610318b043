"""Our backend inside vLLM's own objects, compared with upstream's C++ attention on the same numbers."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm")

import torch
from cpu_backend_step import HEADS, KV_HEADS, SIZE, TOKENS, Layer, Step, builder_of, impl_of
from vllm.model_executor.layers.attention.cross_attention import create_cross_attention_backend
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionMetadata
from vllm.v1.kv_cache_interface import CrossAttentionSpec, EncoderOnlyAttentionSpec, FullAttentionSpec

from toolkit.plugin.cpu_attention.backend import CpuFp8AttentionBackend
from toolkit.plugin.cpu_attention.metadata import CpuFp8Metadata

PER_REQUEST = torch.tensor([1, 0, 0, 1, 1], dtype=torch.int32)
SINKS = torch.tensor([0.0, 1.0, 2.0, -3.0, 5.0, 0.5])
EXTRAS = [
    {},
    {"sliding_window": 17},
    {"logits_soft_cap": 5.0},
    {"alibi_slopes": [0.5, 0.25, 0.1, 0.05, 0.01, 0.002]},
    {"sinks": SINKS},
    {"sinks": SINKS, "sliding_window": 9, "logits_soft_cap": 3.0},
]


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("causal", [True, False, PER_REQUEST], ids=["causal", "full", "per_request"])
@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: "+".join(extra) or "plain")
def test_same_as_upstream_on_a_float_cache(dtype, causal, extra):
    """The numbers are exact in both formats, so only float32's order of additions may differ."""
    step = Step()
    upstream = step.run(CPUAttentionBackend, "auto", causal=causal, **extra)
    ours = step.run(CpuFp8AttentionBackend, dtype, causal=causal, **extra)
    assert (ours - upstream).abs().max() < 1e-5


def test_scales_are_divided_out_and_multiplied_in():
    step = Step()
    ours = step.run(CpuFp8AttentionBackend, "fp8_e5m2", scales=(1.0, 0.25))
    plain = step.run(CpuFp8AttentionBackend, "fp8_e5m2")
    assert torch.equal(ours, plain * 0.25)


CAPABLE = torch.cpu._is_avx512_supported() or torch.cpu._is_amx_tile_supported()


@pytest.mark.parametrize("scales", [(256.0, 1 / 256), (1 / 256, 256.0)])
@pytest.mark.parametrize("dtype", ["fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("backend", [CPUAttentionBackend, CpuFp8AttentionBackend], ids=["upstream", "ours"])
def test_keys_and_values_are_stored_divided_by_their_scale(backend, dtype, scales):
    """Divided, the numbers are exact; without the scale, or multiplied by it, they overflow the format or vanish."""
    if backend is CPUAttentionBackend and not CAPABLE:
        pytest.skip("upstream has no FP8 cache on this CPU")
    step = Step()
    exact = step.run(CPUAttentionBackend, "auto", scales=scales)
    stored = step.run(backend, dtype, scales=scales)
    assert (stored - exact).abs().max() < 1e-3 * exact.abs().max()  # scores of 1e4, whose float32 rounding shows


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: "+".join(extra) or "plain")
def test_without_fp8_it_is_upstream_to_the_bit(extra):
    step = Step()
    assert torch.equal(
        step.run(CpuFp8AttentionBackend, "auto", **extra), step.run(CPUAttentionBackend, "auto", **extra)
    )


def test_upstream_builds_the_metadata_of_groups_without_fp8():
    """Layers that --kv-cache-dtype-skip-layers names form a group of their own beside the FP8 one."""
    spec = FullAttentionSpec(block_size=TOKENS, num_kv_heads=KV_HEADS, head_size=SIZE, dtype=torch.float32)
    metadata = builder_of(CpuFp8AttentionBackend, "fp8_e4m3", spec).build(0, Step().common())
    assert type(metadata) is CPUAttentionMetadata
    assert metadata.scheduler_metadata is not None
    assert type(builder_of(CpuFp8AttentionBackend, "fp8_e4m3").build(0, Step().common())) is CpuFp8Metadata


def test_encoder_layers_are_upstreams():
    """They keep no cache, so what is asked of the cache does not concern them."""
    impl = impl_of(CpuFp8AttentionBackend, "fp8_e4m3", attn_type=AttentionType.ENCODER_ONLY)
    assert impl.fp8 is None
    assert impl.kv_cache_dtype == "auto"
    spec = EncoderOnlyAttentionSpec(block_size=TOKENS, num_kv_heads=KV_HEADS, head_size=SIZE, dtype=torch.uint8)
    assert not builder_of(CpuFp8AttentionBackend, "fp8_e4m3", spec).holds_fp8


def test_memory_profile_without_metadata():
    impl = impl_of(CpuFp8AttentionBackend, "fp8_e4m3")
    output = torch.full((3, HEADS, SIZE), torch.nan)
    empty = torch.tensor([])
    assert not impl.forward(Layer(), output, output, output, empty, None, output).any()


def test_scales_for_each_head_are_refused():
    impl, layer = impl_of(CpuFp8AttentionBackend, "fp8_e4m3"), Layer()
    layer._k_scale = torch.ones(KV_HEADS)
    with pytest.raises(NotImplementedError, match="one key and one value scale a layer"):
        impl.do_kv_cache_update(layer, *torch.zeros(2, 1, KV_HEADS, SIZE), torch.zeros(1, 2, 32, 128), torch.zeros(1))


def test_requests_without_new_tokens_are_left_out():
    step = Step()
    common = step.common()
    common.query_start_loc = torch.tensor([0, 0, 1, 34, 54, 54], dtype=torch.int32)
    requests = builder_of(CpuFp8AttentionBackend, "fp8_e4m3").build(0, common).requests
    assert [(request.begin, request.end, request.context) for request in requests] == [
        (0, 1, 70),
        (1, 34, 33),
        (34, 54, 90),
    ]


@pytest.mark.parametrize("decoding", [False, True], ids=["first step", "later step"])
def test_cross_attention_as_upstream(decoding):
    """Decoder queries over an encoder's keys, through the classes that vLLM derives from the backend's."""
    step = Step()
    common = step.common()
    common.encoder_seq_lens, common.encoder_seq_lens_cpu = step.contexts, step.contexts.numpy().copy()
    done = torch.tensor([3, 0, 0, 1, 7] if decoding else [0] * 5, dtype=torch.int32)
    common.seq_lens_cpu_upper_bound = torch.tensor(step.new, dtype=torch.int32) + done
    outputs = []
    for backend, dtype, stored in (
        (CPUAttentionBackend, "auto", torch.float32),
        (CpuFp8AttentionBackend, "fp8_e4m3", torch.uint8),
    ):
        cross = create_cross_attention_backend(backend)
        impl, layer = impl_of(cross, dtype, attn_type=AttentionType.ENCODER_DECODER), Layer()
        layer.kv_sharing_target_layer_name = None
        kv_cache = torch.zeros(sum(step.blocks) + 1, KV_HEADS, TOKENS, 2 * SIZE, dtype=stored)
        impl.do_kv_cache_update(layer, step.keys, step.values, kv_cache, step.slots)
        spec = CrossAttentionSpec(block_size=TOKENS, num_kv_heads=KV_HEADS, head_size=SIZE, dtype=stored)
        metadata = builder_of(cross, dtype, spec).build(0, common)
        rows = torch.repeat_interleave(done == 0, step.contexts.long())
        output = torch.full((sum(step.new), HEADS, SIZE), torch.nan)
        impl.forward(layer, step.query, step.keys[rows], step.values[rows], kv_cache, metadata, output)
        outputs.append(output)
    assert (outputs[0] - outputs[1]).abs().max() < 1e-5


def test_name_and_capabilities_are_upstreams():
    assert CpuFp8AttentionBackend.get_name() == "CPU_ATTN"
    assert not CpuFp8AttentionBackend.forward_includes_kv_cache_update
    assert CpuFp8AttentionBackend.supports_non_causal()
    assert CpuFp8AttentionBackend.supports_sliding_window()
