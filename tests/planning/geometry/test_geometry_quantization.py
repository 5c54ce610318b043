"""Weight formats, by what a configuration says of them and not by a name."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.planning.geometry.keys import Keys
from toolkit.planning.geometry.quantization import KvScheme, Quantization, Scheme, kv_dtype_of, read_quantization

FP4_ACTS = {"num_bits": 4, "type": "float"}
FP8_KV = {"num_bits": 8, "type": "float", "dynamic": False, "strategy": "tensor"}


def read(**quantization: Any) -> Quantization:
    return read_quantization(Keys({"quantization_config": quantization}))


def group(bits: int, kind: str, strategy: str, size: int | None = None, acts: dict[str, Any] | None = None) -> Any:
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "group_size": size}
    return {"targets": ["Linear"], "weights": weights, "input_activations": acts}


def compressed(**groups: Any) -> Quantization:
    return read(quant_method="compressed-tensors", config_groups=groups, ignore=["lm_head"], kv_cache_scheme=FP8_KV)


def test_none() -> None:
    assert read_quantization(Keys({})) == Quantization()
    assert Quantization().bits == 16


@pytest.mark.parametrize(
    ("algorithm", "scheme", "activations", "bits"),
    [
        ("NVFP4", Scheme.nvfp4, "nvfp4", 4.5),
        ("W4A16_NVFP4", Scheme.nvfp4, "16-bit", 4.5),
        ("FP8", Scheme.fp8_tensor, "fp8", 8.0),
        ("FP8_PER_CHANNEL_PER_TOKEN", Scheme.fp8_channel, "fp8", 8.0),
        ("FP8_PB_WO", Scheme.fp8_block, "16-bit", 8.0),
        ("NEWEST", Scheme.unknown, "16-bit", None),
    ],
)
def test_modelopt(algorithm: str, scheme: Scheme, activations: str, bits: float | None) -> None:
    found = read(quant_method="modelopt", quant_algo=algorithm, exclude_modules=["lm_head", "mtp*"])
    assert (found.scheme, found.activations, found.bits) == (scheme, activations, bits)
    assert (found.container, found.ignored) == ("modelopt", ("lm_head", "mtp*"))


def test_modelopt_in_its_older_nesting() -> None:
    inner = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
    found = read(producer={"name": "modelopt"}, quantization=inner)
    assert (found.scheme, found.group_size, found.ignored) == (Scheme.nvfp4, 16, ("lm_head",))
    assert found.kv_cache == KvScheme(bits=8, kind="float")


def test_modelopt_with_several_formats() -> None:
    layers = {"a": {"quant_algo": "NVFP4"}, "b": {"quant_algo": "FP8"}, "c": {"quant_algo": "NVFP4"}}
    found = read(quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=layers)
    assert (found.scheme, found.parts) == (Scheme.mixed, (Scheme.nvfp4, Scheme.fp8_tensor))
    assert found.bits is None


@pytest.mark.parametrize(
    ("entry", "scheme", "size", "activations"),
    [
        pytest.param(group(4, "float", "tensor_group", 16), Scheme.nvfp4, 16, "16-bit", id="nvfp4-w4a16"),
        pytest.param(
            group(4, "float", "tensor_group", 16, {"num_bits": 4, "type": "float"}),
            Scheme.nvfp4,
            16,
            "nvfp4",
            id="w4a4",
        ),
        pytest.param(group(4, "float", "group", 32), Scheme.unknown, 32, "16-bit", id="not-nvfp4"),
        pytest.param(
            group(8, "float", "channel", None, {"num_bits": 8, "type": "float"}),
            Scheme.fp8_channel,
            None,
            "fp8",
            id="fp8-channel",
        ),
        pytest.param(group(8, "float", "tensor"), Scheme.fp8_tensor, None, "16-bit", id="fp8-tensor"),
        pytest.param(group(8, "float", "block"), Scheme.fp8_block, None, "16-bit", id="fp8-block"),
        pytest.param(group(4, "int", "group", 128), Scheme.int4_group, 128, "16-bit", id="int4"),
        pytest.param(group(8, "int", "channel"), Scheme.int8_channel, None, "16-bit", id="int8"),
    ],
)
def test_compressed_tensors(entry: Any, scheme: Scheme, size: int | None, activations: str) -> None:
    found = compressed(group_0=entry)
    assert (found.scheme, found.group_size, found.activations) == (scheme, size, activations)
    assert found.ignored == ("lm_head",)
    assert found.kv_cache == KvScheme(bits=8, kind="float")


def test_compressed_tensors_with_several_formats() -> None:
    found = compressed(one=group(4, "float", "tensor_group", 16), two=group(8, "float", "channel"))
    assert (found.scheme, found.parts) == (Scheme.mixed, (Scheme.nvfp4, Scheme.fp8_channel))


@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_awq_and_gptq(method: str) -> None:
    found = read(quant_method=method, bits=4, group_size=128, modules_to_not_convert=["lm_head"])
    assert (found.scheme, found.container, found.group_size) == (Scheme.int4_group, method, 128)
    assert found.bits == 4.125


def test_gptq_with_one_scale_a_row() -> None:
    assert read(quant_method="gptq", bits=4, group_size=-1).group_size is None


def test_block_fp8() -> None:
    found = read(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[128, 128])
    assert (found.scheme, found.block, found.activations) == (Scheme.fp8_block, (128, 128), "fp8")


def test_a_method_that_is_not_known_is_kept_by_name() -> None:
    found = read(quant_method="exl3", bits=3)
    assert (found.scheme, found.container) == (Scheme.unknown, "exl3")


@pytest.mark.parametrize(
    ("scheme", "dtype"),
    [
        (None, None),
        (KvScheme(8, "float"), "fp8_e4m3"),
        (KvScheme(8, "int"), None),
        (KvScheme(4, "float"), None),
    ],
)
def test_the_kv_dtype_that_a_scheme_asks_for(scheme: KvScheme | None, dtype: str | None) -> None:
    assert kv_dtype_of(scheme) == dtype
