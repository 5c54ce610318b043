"""What the engine's workers should report of themselves: part of the plan, which a run is held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit import __version__
from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.machine.facts import Interpreter, MachineFacts
from toolkit.planning.attention_routes import V100_IMPLEMENTATION, cpu_implementation
from toolkit.planning.command import kv_cache_dtype
from toolkit.planning.extra_arguments import begins
from toolkit.planning.graphs import Graphs, expected_graphs

PLATFORMS: Mapping[EngineName, str] = {
    EngineName.cpu: "vllm.platforms.cpu.CpuPlatform",
    EngineName.v100: "toolkit.plugin.platform.v100.V100Platform",
}
COMPARED = frozenset({"torch", "triton", "transformers"})
"""Packages whose installed versions the workers must have loaded."""
RANKS = ("--pipeline-parallel-size", "-pp", "--prefill-context-parallel-size", "-pcp", "--nnodes", "-n")
"""How arguments begin that make other workers than the plan's."""
ATTENTION = ("--attention-", "-ac")
"""How those begin that choose another class of attention."""


@dataclass(frozen=True)
class ImportFolders:
    """Where the engine's processes may import from."""

    standard: tuple[str, ...]
    """The standard library; installed packages that lie below it do not count to it."""
    packages: tuple[str, ...]
    added: tuple[str, ...]
    """Those that engine.environment.PYTHONPATH names."""
    toolkit: str | None
    """The checkout or folder that holds the toolkit, and nothing else that may be imported."""


@dataclass(frozen=True)
class ExpectedWorkers:
    """What each worker should say, as far as it is known before the start; None and empty compare nothing."""

    engine: str
    """`cpu` or `v100`."""
    platform: str
    """The class that vLLM asks what the device can do."""
    imports: ImportFolders | None
    """None where the interpreter did not say; then no worker can pass."""
    silence: str = ""
    """Why it did not."""
    count: int | None = None
    """Workers: one for each rank."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of Python, of packages and of the toolkit, without a local part such as `+cpu`."""
    graphs: Graphs = field(default_factory=Graphs)
    kv_blocks: int | None = None
    switches: Mapping[str, bool] = field(default_factory=dict)
    kv_dtype: str | None = None
    """The engine's name of it."""
    attention: str | None = None
    """The class that computes attention in the model's layers."""


def expected_workers(
    config: DeploymentConfig,
    machine: MachineFacts,
    switches: Mapping[str, bool],
    kv_blocks: int | None,
    model: Mapping[str, Any],
) -> ExpectedWorkers:
    """What follows for the workers from the configuration and the interpreter that serves.

    kv_blocks: the planned number; None where the engine finds the memory itself. model: its config.json.
    """
    found, extra = machine.interpreter, config.engine.extra_arguments
    silence = machine.unread.get("interpreter", "nobody asked the interpreter where it imports from")
    imports = ImportFolders(found.standard, found.packages, found.added, found.toolkit) if found is not None else None
    ranks_elsewhere = begins(extra, RANKS)
    return ExpectedWorkers(
        engine=config.engine.name.value,
        platform=PLATFORMS[config.engine.name],
        imports=imports,
        silence="" if imports else silence,
        count=None if ranks_elsewhere else config.limits.tensor_parallel,
        versions=_versions(config, found),
        graphs=expected_graphs(config),
        kv_blocks=kv_blocks,
        switches=dict(switches),
        kv_dtype=kv_cache_dtype(config),
        attention=_attention(config, machine, model),
    )


def _versions(config: DeploymentConfig, found: Interpreter | None) -> dict[str, str]:
    versions = {"vllm": config.engine.version, "toolkit": __version__}
    if found is not None:
        named = COMPARED if config.engine.name is EngineName.v100 else COMPARED - {"triton"}
        versions |= {name: version for name, version in found.versions.items() if name in named}
        versions["python"] = found.python
    return {name: version.partition("+")[0] for name, version in sorted(versions.items())}


def _attention(config: DeploymentConfig, machine: MachineFacts, model: Mapping[str, Any]) -> str | None:
    """The class of plain attention; latent attention has others, which are left out."""
    text = model.get("text_config")
    latent = "kv_lora_rank" in model or (isinstance(text, Mapping) and "kv_lora_rank" in text)
    if latent or begins(config.engine.extra_arguments, ATTENTION):
        return None
    if config.engine.name is EngineName.v100:
        return V100_IMPLEMENTATION
    return cpu_implementation(machine.cpu_flags)
