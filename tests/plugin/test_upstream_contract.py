"""Every name of vLLM's that the plugin touches: it exists, with the signature or the fields that we rely on.

When a new vLLM is tried, a failure here says which of them changed.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect

import pytest

pytest.importorskip("vllm")

CPU = "vllm.v1.attention.backends.cpu_attn"
IMPLEMENTATION = [
    "self",
    "num_heads",
    "head_size",
    "scale",
    "num_kv_heads",
    "alibi_slopes",
    "sliding_window",
    "kv_cache_dtype",
    "logits_soft_cap",
    "attn_type",
    "kv_sharing_target_layer_name",
    "sinks",
]
"""What every backend's implementation is constructed with."""
CACHE_WRITE = ["self", "layer", "key", "value", "kv_cache", "slot_mapping"]
BUILDER = ["self", "kv_cache_spec", "layer_names", "vllm_config", "device"]
SIGNATURES = {
    ("vllm.v1.attention.backends.registry", "register_backend"): ["backend", "class_path", "is_mamba"],
    ("vllm.v1.attention.backends.registry", "AttentionBackendEnum.is_overridden"): ["self"],
    ("vllm.v1.attention.backends.registry", "AttentionBackendEnum.get_path"): ["self", "include_classname"],
    ("vllm.platforms.interface", "Platform.is_cpu"): ["self"],
    (CPU, "CPUAttentionBackend.get_impl_cls"): [],
    (CPU, "CPUAttentionBackend.get_builder_cls"): [],
    (CPU, "CPUAttentionBackendImpl.__init__"): IMPLEMENTATION,
    (CPU, "CPUAttentionBackendImpl.forward"): [
        "self",
        "layer",
        "query",
        "key",
        "value",
        "kv_cache",
        "attn_metadata",
        "output",
        "output_scale",
        "output_block_scale",
    ],
    (CPU, "CPUAttentionBackendImpl.do_kv_cache_update"): CACHE_WRITE,
    (CPU, "CPUAttentionMetadataBuilder.__init__"): BUILDER,
    (CPU, "CPUAttentionMetadataBuilder.build"): ["self", "common_prefix_len", "common_attn_metadata", "fast_build"],
    ("vllm.v1.attention.backend", "AttentionMetadataBuilder.__init__"): BUILDER,
    ("vllm.model_executor.layers.attention.attention", "set_default_quant_scales"): ["layer", "register_buffer"],
    ("vllm.v1.worker.gpu_worker", "Worker.load_model"): ["self", "load_dummy_weights"],
    ("vllm.v1.worker.gpu_worker", "Worker.reload_weights"): ["self", "args", "kwargs"],
    ("vllm.v1.worker.gpu_worker", "Worker.compile_or_warm_up_model"): ["self"],
    ("vllm.v1.worker.gpu_worker", "Worker.execute_model"): ["self", "scheduler_output"],
    ("vllm.v1.worker.gpu_worker", "Worker.shutdown"): ["self"],
    ("vllm.model_executor.layers.attention.attention", "unified_kv_cache_update"): ["key", "value", "layer_name"],
    ("vllm.model_executor.model_loader", "register_model_loader"): ["load_format"],
    ("vllm.model_executor.model_loader", "get_model_loader"): ["load_config"],
    ("vllm.model_executor.model_loader.default_loader", "DefaultModelLoader.__init__"): ["self", "load_config"],
    ("vllm.model_executor.model_loader.default_loader", "DefaultModelLoader.get_all_weights"): [
        "self",
        "model_config",
        "model",
    ],
    ("vllm.logger", "init_logger"): ["name"],
    ("torch.cpu", "_is_avx512_supported"): [],
    ("torch.cpu", "_is_amx_tile_supported"): [],
}
INTERFACE, TRITON = "vllm.platforms.interface", "vllm.v1.attention.backends.triton_attn"
PLATFORM_SIGNATURES = {
    (INTERFACE, "DeviceCapability"): ["major", "minor"],
    (INTERFACE, "Platform.get_device_capability"): ["device_id"],
    (INTERFACE, "Platform.get_attn_backend_cls"): ["selected_backend", "attn_selector_config", "num_heads"],
    (INTERFACE, "Platform.set_device"): ["device"],
    (INTERFACE, "Platform.use_custom_allreduce"): [],
    (INTERFACE, "Platform.is_arch_support_pdl"): [],
    ("vllm.utils.import_utils", "import_pynvml"): [],
    ("vllm.v1.kv_cache_interface", "get_kv_quant_mode"): ["kv_cache_dtype"],
    (TRITON, "TritonAttentionBackend.get_name"): [],
    (TRITON, "TritonAttentionBackend.get_impl_cls"): [],
    (TRITON, "TritonAttentionImpl.__init__"): [*IMPLEMENTATION, "use_alibi_sqrt", "chunk_lookback"],
    (TRITON, "TritonAttentionImpl.do_kv_cache_update"): CACHE_WRITE,
}
"""What the platform plugin touches; both lists are checked in .venv-v100 too, by tests/plugin/v100/test_modules.py."""
FIELDS = {
    (CPU, "CPUAttentionMetadata"): {
        "num_actual_tokens",
        "max_query_len",
        "query_start_loc",
        "max_seq_len",
        "seq_lens",
        "block_table",
        "slot_mapping",
        "scheduler_metadata",
        "causal",
        "dynamic_causal",
    },
    ("vllm.v1.attention.backend", "CommonAttentionMetadata"): {
        "num_actual_tokens",
        "max_query_len",
        "query_start_loc",
        "max_seq_len",
        "seq_lens",
        "num_reqs",
        "block_table_tensor",
        "slot_mapping",
        "causal",
    },
    ("vllm.v1.core.sched.output", "SchedulerOutput"): {"finished_req_ids", "total_num_scheduled_tokens"},
    ("vllm.v1.kv_cache_interface", "AttentionSpec"): {"dtype", "block_size", "num_kv_heads", "head_size"},
}


def resolve(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(
    ("place", "expected"), (SIGNATURES | PLATFORM_SIGNATURES).items(), ids=lambda value: ".".join(map(str, value))
)
def test_signature(place, expected):
    assert list(inspect.signature(resolve(*place)).parameters) == expected


@pytest.mark.parametrize(("place", "needed"), FIELDS.items(), ids=lambda value: str(value)[:60])
def test_fields(place, needed):
    assert needed <= {field.name for field in dataclasses.fields(resolve(*place))}


def test_backend_names_and_constants():
    registry = importlib.import_module("vllm.v1.attention.backends.registry")
    assert registry.AttentionBackendEnum.CPU_ATTN.value == f"{CPU}.CPUAttentionBackend"
    types = importlib.import_module("vllm.v1.attention.backend").AttentionType
    assert (types.DECODER, types.ENCODER, types.ENCODER_ONLY) == ("decoder", "encoder", "encoder_only")
    interface = importlib.import_module("vllm.v1.kv_cache_interface")
    assert issubclass(interface.CrossAttentionSpec, interface.AttentionSpec)
    assert issubclass(interface.EncoderOnlyAttentionSpec, interface.AttentionSpec)


def test_vllm_hands_over_the_cache_as_bytes_that_the_layer_keeps_apart_from_its_update():
    """The layer calls do_kv_cache_update before forward, and the cache is uint8 with keys and values in one page."""
    import torch
    from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    backend = resolve(CPU, "CPUAttentionBackend")
    assert not backend.forward_includes_kv_cache_update
    assert [STR_DTYPE_TO_TORCH_DTYPE[name] for name in ("fp8", "fp8_e4m3", "fp8_e5m2")] == [torch.uint8] * 3
    spec = FullAttentionSpec(block_size=32, num_kv_heads=2, head_size=64, dtype=torch.uint8)
    assert spec.page_size_bytes == 32 * 2 * (64 + 64)


def test_a_layer_has_its_scales_as_numbers_and_as_tensors():
    import torch

    layer = torch.nn.Module()
    resolve("vllm.model_executor.layers.attention.attention", "set_default_quant_scales")(layer, register_buffer=True)
    assert (layer._k_scale_float, layer._v_scale_float) == (1.0, 1.0)
    assert (layer._k_scale.numel(), layer._v_scale.numel()) == (1, 1)


def test_what_upstream_still_refuses():
    """The reason for this route: without AVX-512 and AMX upstream has no FP8 cache. When this fails, drop the route."""
    import torch

    if torch.cpu._is_avx512_supported() or torch.cpu._is_amx_tile_supported():
        pytest.skip("this CPU has what upstream needs")
    with pytest.raises(NotImplementedError, match="requires x86 with AVX-512 or AMX"):
        resolve(CPU, "_get_attn_isa")(torch.float16, 32, 64, "fp8_e4m3")
