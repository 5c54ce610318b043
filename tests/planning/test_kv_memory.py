"""The KV cache's bytes: what was asked for, unless the engine would take another number."""

from __future__ import annotations

import pytest

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.command import engine_command
from toolkit.planning.kv_memory import CPU_KV_BYTES, kv_cache_memory_bytes


@pytest.mark.parametrize(
    ("engine", "space", "argument", "expected"),
    [
        (EngineName.cpu, None, None, CPU_KV_BYTES),
        (EngineName.cpu, None, 2**28, 2**28),
        (EngineName.cpu, "1", 2**28, 2**30),
        (EngineName.cpu, "", 2**28, 2**28),
        (EngineName.cpu, "0.5", 2**28, 2**28),
        (EngineName.v100, None, None, None),
        (EngineName.v100, "1", 2**28, 2**28),
    ],
)
def test_the_cpu_engines_own_variable_wins(
    engine: EngineName, space: str | None, argument: int | None, expected: int | None
) -> None:
    config = DeploymentConfig()
    config.engine.name, config.limits.kv_cache_memory_bytes = engine, argument
    if space is not None:
        config.engine.environment["VLLM_CPU_KVCACHE_SPACE"] = space
    assert kv_cache_memory_bytes(config) == expected


def test_the_argument_is_what_the_engine_will_take() -> None:
    """Otherwise the plan's capacity would be another one than the engine's."""
    config = DeploymentConfig()
    config.engine.environment["VLLM_CPU_KVCACHE_SPACE"] = "2"
    argv = engine_command(config, "model", "python", {}).argv
    assert argv[argv.index("--kv-cache-memory-bytes") + 1] == str(2 * 2**30)
