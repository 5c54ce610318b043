"""The engine's command line and environment, from the configuration alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.limits import EmbeddingPlace
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.kv_measurement import MEASUREMENTS_FOLDER
from toolkit.planning.kv_memory import kv_cache_memory_bytes
from toolkit.planning.platform_demand import VARIABLE, Demand
from toolkit.planning.worker_report import WORKERS_FOLDER

SERVER_MODULE = "vllm.entrypoints.launchers.api_server.entry"

QUIET: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",  # the checkpoint is a folder; nothing is fetched while serving
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",  # packages of the user's home would shadow the planned environment
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
BY_ENGINE: Mapping[EngineName, Mapping[str, str]] = {
    EngineName.cpu: {"VLLM_HOST_IP": "127.0.0.1", "VLLM_TARGET_DEVICE": "cpu"},
    EngineName.v100: {
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # NVML and CUDA then number the GPUs alike
    },
}
# Even when told to be eager, vLLM compiles a few functions (log-probabilities, top-k) with the machine's C++ compiler.
# Where there is none, or a path has a space, the engine would die at the first request that needs one of them.
EAGER: Mapping[str, str] = {"TORCHDYNAMO_DISABLE": "1"}


WORKERS: Mapping[EngineName, str] = {
    EngineName.cpu: "toolkit.plugin.worker.cpu.VoltaCpuWorker",
    EngineName.v100: "toolkit.plugin.worker.gpu.VoltaWorker",
}
"""vLLM's workers with our additions: KV scales, reports, measurements."""


@dataclass(frozen=True)
class Command:
    """How the engine is started."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def engine_command(config: DeploymentConfig, model: str, python: str, switches: Mapping[str, bool]) -> Command:
    """The command that serves the folder `model` with the interpreter `python`.

    The plugin's settings travel as one JSON object in `--additional-config` under the key `volta`.
    """
    argv = (python, "-m", SERVER_MODULE, *_arguments(config, model, switches), *config.engine.extra_arguments)
    eager = {} if config.engine.compile else EAGER
    platform = _platform(config) if config.engine.name is EngineName.v100 else {}
    return Command(argv, {**QUIET, **BY_ENGINE[config.engine.name], **platform, **eager, **config.engine.environment})


def _platform(config: DeploymentConfig) -> dict[str, str]:
    """The demand on our platform: vLLM chooses one before it has read its arguments."""
    demand = Demand.any_gpu if config.engine.prove_on_any_gpu else Demand.v100
    return {VARIABLE: demand.value}


def _arguments(config: DeploymentConfig, model: str, switches: Mapping[str, bool]) -> Iterator[str]:
    limits, server, engine = config.limits, config.server, config.engine
    yield from ("--model", model, "--served-model-name", config.checkpoint.name)
    yield from ("--host", server.host, "--port", str(server.port))
    yield from ("--dtype", engine.dtype, "--kv-cache-dtype", kv_cache_dtype(config))
    yield from ("--max-model-len", str(limits.max_model_len), "--max-num-seqs", str(limits.max_num_seqs))
    yield from ("--max-num-batched-tokens", str(limits.max_num_batched_tokens))
    yield from _memory(config)
    yield "--enable-prefix-caching" if limits.prefix_caching else "--no-enable-prefix-caching"
    if limits.block_size is not None:
        yield from ("--block-size", str(limits.block_size))
    if not engine.compile:
        yield "--enforce-eager"
    if limits.ngram_embedding is EmbeddingPlace.gpu:
        yield from ("--engram-config", _compact({"cpu_offload": False}))  # the engine's own default is pinned
    yield from _parallelism(config)
    yield from _speculation(config)
    yield from ("--generation-config", "vllm", "--seed", "0", "--worker-cls", WORKERS[engine.name])
    yield from ("--additional-config", _compact({"volta": plugin_settings(config, switches)}))


def kv_cache_dtype(config: DeploymentConfig) -> str:
    """The engine's name for the KV dtype; `auto` is the element type of the activations."""
    return "auto" if config.kv.dtype == config.engine.dtype else config.kv.dtype


def plugin_settings(config: DeploymentConfig, switches: Mapping[str, bool]) -> dict[str, object]:
    """What our plugin is told inside the engine."""
    settings: dict[str, object] = {"engine": config.engine.name.value, "switches": dict(switches)}
    settings["reports"] = WORKERS_FOLDER
    if config.engine.measure_kv:
        settings["measurements"] = MEASUREMENTS_FOLDER
    return settings


def _memory(config: DeploymentConfig) -> Iterator[str]:
    size = kv_cache_memory_bytes(config)
    if size is not None:
        yield from ("--kv-cache-memory-bytes", str(size))
    if size is None or config.engine.name is EngineName.v100:  # on a GPU that share must be free all the same
        yield from ("--gpu-memory-utilization", str(config.limits.gpu_memory_utilization))


def _parallelism(config: DeploymentConfig) -> Iterator[str]:
    if config.limits.tensor_parallel > 1:
        yield from ("--tensor-parallel-size", str(config.limits.tensor_parallel))
    if config.dcp.size > 1:
        yield from ("--decode-context-parallel-size", str(config.dcp.size))
        yield from ("--dcp-kv-cache-interleave-size", str(config.dcp.interleave))


def _speculation(config: DeploymentConfig) -> Iterator[str]:
    draft = config.speculative
    if draft.method == "none":
        return
    settings: dict[str, object] = {"method": "dflash" if draft.method == "dflash2" else draft.method}
    settings["num_speculative_tokens"] = draft.tokens
    if draft.draft_path or draft.draft_repository:
        settings["model"] = draft.draft_path or draft.draft_repository
    if draft.draft_revision and not draft.draft_path:
        settings["revision"] = draft.draft_revision
    yield from ("--speculative-config", _compact(settings))


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
