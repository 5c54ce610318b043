"""How weights are stored, read from what `quantization_config` says and never from a model's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatch

from toolkit.planning.geometry.keys import Keys


class Scheme(Enum):
    """A weight format."""

    none = "none"
    """16- or 32-bit weights."""
    nvfp4 = "nvfp4"
    """4-bit floats in groups of 16 with FP8 scales and one FP32 scale a tensor."""
    fp8_tensor = "fp8_tensor"
    fp8_channel = "fp8_channel"
    fp8_block = "fp8_block"
    int4_group = "int4_group"
    int8_channel = "int8_channel"
    mixed = "mixed"
    """Different formats for different layers; `parts` names them."""
    unknown = "unknown"


@dataclass(frozen=True)
class KvScheme:
    """The KV cache's element type that a checkpoint was calibrated for."""

    bits: int
    """Of an element."""
    kind: str
    """`float` or `int`."""


@dataclass(frozen=True)
class Quantization:
    """A checkpoint's weight format."""

    scheme: Scheme = Scheme.none
    container: str = "none"
    """Who wrote it: `modelopt`, `compressed-tensors`, `awq`, `gptq`, `fp8`, `none`, or the file's own word."""
    group_size: int | None = None
    """Weights of a row that share a scale; None where scales are for other shapes."""
    block: tuple[int, ...] = ()
    """fp8_block: rows and columns that share a scale."""
    activations: str = "16-bit"
    """Element type in which products take activations: `16-bit`, `fp8`, `nvfp4` or `int8`."""
    ignored: tuple[str, ...] = ()
    """Modules that stay unquantised, as the checkpoint names them."""
    kv_cache: KvScheme | None = None
    parts: tuple[Scheme, ...] = ()

    @property
    def bits(self) -> float | None:
        """Bits a weight takes with its group scales; None where the format does not settle it."""
        scale_bits = {Scheme.nvfp4: 8.0, Scheme.int4_group: 16.0}.get(self.scheme, 0.0)
        code_bits = _CODE_BITS.get(self.scheme)
        if code_bits is None:
            return None
        return code_bits + (scale_bits / self.group_size if self.group_size else 0.0)

    def keeps(self, module: str) -> bool:
        """Whether a module stays unquantised: named, below a named one, or matched by `*` or by `re:`."""
        for pattern in self.ignored:
            if pattern.startswith("re:"):
                if re.match(pattern[3:], module):
                    return True
            elif fnmatch(module, pattern) or module.startswith(f"{pattern}."):
                return True
        return False


_CODE_BITS = {
    Scheme.none: 16.0,
    Scheme.nvfp4: 4.0,
    Scheme.fp8_tensor: 8.0,
    Scheme.fp8_channel: 8.0,
    Scheme.fp8_block: 8.0,
    Scheme.int4_group: 4.0,
    Scheme.int8_channel: 8.0,
}


def read_quantization(config: Keys) -> Quantization:
    """Read the weight format of a config.json; `config` is its outermost object.

    Containers: NVIDIA ModelOpt (`quant_algo`), compressed-tensors (`config_groups`), AWQ and GPTQ (`bits`), and
    block or tensor FP8 (`quant_method: fp8`).
    """
    keys = config.child("quantization_config") or config.child("compression_config")
    if keys is None:
        return Quantization()
    method = keys.text("quant_method", "").lower().replace("compressed_tensors", "compressed-tensors")
    legacy = keys.child("quantization")
    if keys.has("quant_algo") or (legacy is not None and legacy.has("quant_algo")):
        return _modelopt(keys, legacy or keys)
    if method == "compressed-tensors" or keys.has("config_groups"):
        return _compressed_tensors(keys)
    if method in ("awq", "gptq", "awq_marlin", "gptq_marlin"):
        return _integer(keys, method.removesuffix("_marlin"))
    if method == "fp8":
        return _fp8(keys)
    return Quantization(scheme=Scheme.unknown, container=method or "unnamed")


_MODELOPT = {
    "NVFP4": (Scheme.nvfp4, "nvfp4"),
    "W4A16_NVFP4": (Scheme.nvfp4, "16-bit"),
    "FP8": (Scheme.fp8_tensor, "fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": (Scheme.fp8_channel, "fp8"),
    "FP8_PB_WO": (Scheme.fp8_block, "16-bit"),
    "W4A16_AWQ": (Scheme.int4_group, "16-bit"),
    "INT4_AWQ": (Scheme.int4_group, "16-bit"),
    "INT8_SQ": (Scheme.int8_channel, "int8"),
}


def _modelopt(outer: Keys, keys: Keys) -> Quantization:
    algorithm = keys.text("quant_algo").upper()
    scheme, activations = _MODELOPT.get(algorithm, (Scheme.unknown, "16-bit"))
    parts: tuple[Scheme, ...] = ()
    if algorithm in ("MIXED_PRECISION", "MIXED"):
        scheme, parts = Scheme.mixed, _modelopt_parts(keys)
    group = keys.optional_integer("group_size")
    if scheme is Scheme.nvfp4 and group is None:
        group = 16  # NVFP4 has no other group size
    return Quantization(
        scheme=scheme,
        container="modelopt",
        group_size=group,
        activations=activations,
        ignored=keys.texts("exclude_modules") or keys.texts("ignore") or outer.texts("ignore"),
        kv_cache=_kv_scheme(outer) or _modelopt_kv(keys),
        parts=parts,
    )


def _modelopt_parts(keys: Keys) -> tuple[Scheme, ...]:
    layers = keys.child("quantized_layers")
    found: list[Scheme] = []
    for entry in layers.data.values() if layers else ():
        word = str(entry.get("quant_algo", "")).upper() if isinstance(entry, Mapping) else ""
        scheme = _MODELOPT.get(word, (Scheme.unknown, ""))[0]
        if scheme not in found:
            found.append(scheme)
    return tuple(found)


def _modelopt_kv(keys: Keys) -> KvScheme | None:
    word = keys.optional_text("kv_cache_quant_algo")
    if word is None or word.upper() in ("NONE", ""):
        return None
    return KvScheme(bits=4 if "4" in word else 8, kind="int" if "INT" in word.upper() else "float")


def _compressed_tensors(keys: Keys) -> Quantization:
    groups = keys.child("config_groups")
    found = [_compressed_group(Keys(value, keys.where)) for value in groups.data.values()] if groups else []
    schemes = tuple(dict.fromkeys(part.scheme for part in found))
    shared = found[0] if len(schemes) == 1 else Quantization(scheme=Scheme.mixed if schemes else Scheme.unknown)
    return Quantization(
        scheme=shared.scheme,
        container="compressed-tensors",
        group_size=shared.group_size,
        block=shared.block,
        activations=shared.activations,
        ignored=keys.texts("ignore"),
        kv_cache=_kv_scheme(keys),
        parts=schemes if len(schemes) > 1 else (),
    )


def _compressed_group(group: Keys) -> Quantization:
    weights = group.child("weights")
    if weights is None:
        return Quantization(scheme=Scheme.unknown)
    bits, kind = weights.integer("num_bits"), weights.text("type", "int")
    strategy, size = weights.text("strategy", "tensor"), weights.optional_integer("group_size")
    block = weights.integers("block_structure")
    return Quantization(
        scheme=_weight_scheme(bits, kind, strategy, size),
        group_size=size if strategy in ("group", "tensor_group") else None,
        block=block,
        activations=_activations(group.child("input_activations")),
    )


def _weight_scheme(bits: int, kind: str, strategy: str, size: int | None) -> Scheme:
    if (bits, kind) == (4, "float"):
        return Scheme.nvfp4 if size == 16 else Scheme.unknown
    if (bits, kind) == (8, "float"):
        by_strategy = {"tensor": Scheme.fp8_tensor, "channel": Scheme.fp8_channel, "block": Scheme.fp8_block}
        return by_strategy.get(strategy, Scheme.unknown)
    if (bits, kind) == (4, "int"):
        return Scheme.int4_group
    return Scheme.int8_channel if (bits, kind) == (8, "int") else Scheme.unknown


def _activations(keys: Keys | None) -> str:
    if keys is None:
        return "16-bit"
    bits, kind = keys.integer("num_bits"), keys.text("type", "int")
    return {(8, "float"): "fp8", (4, "float"): "nvfp4", (8, "int"): "int8"}.get((bits, kind), f"{bits}-bit {kind}")


def _integer(keys: Keys, container: str) -> Quantization:
    bits = keys.integer("bits", 4)
    group: int | None = keys.data.get("group_size")
    return Quantization(
        scheme={4: Scheme.int4_group, 8: Scheme.int8_channel}.get(bits, Scheme.unknown),
        container=container,
        group_size=group if isinstance(group, int) and group > 0 else None,
        ignored=keys.texts("modules_to_not_convert"),
    )


def _fp8(keys: Keys) -> Quantization:
    block = keys.integers("weight_block_size")
    return Quantization(
        scheme=Scheme.fp8_block if block else Scheme.fp8_tensor,
        container="fp8",
        block=block,
        activations="fp8",
        ignored=keys.texts("modules_to_not_convert") or keys.texts("ignored_layers"),
        kv_cache=_kv_scheme(keys),
    )


def _kv_scheme(keys: Keys) -> KvScheme | None:
    scheme = keys.child("kv_cache_scheme")
    if scheme is None:
        return None
    return KvScheme(bits=scheme.integer("num_bits"), kind=scheme.text("type", "float"))


def kv_dtype_of(scheme: KvScheme | None) -> str | None:
    """Return the KV dtype that a scheme asks for; None where it asks for none that is known."""
    if scheme is None or (scheme.bits, scheme.kind) != (8, "float"):
        return None
    return "fp8_e4m3"
