"""Deployments whose memory was published, and their terms by purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from toolkit.checkpoint.facts import CheckpointFacts, TensorFacts
from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.budget import Budget, Term
from toolkit.planning.geometry import ModelGeometry, read_geometry

CONF = Path(__file__).parents[2] / "conf"
GIB = 2**30
FLASH_NEXT, DENSE = "qwen38_flash_next_nvfp4", "qwen38_27b_nvfp4"


def checkpoint(name: str) -> Any:
    return OmegaConf.to_container(OmegaConf.load(CONF / "checkpoint" / f"{name}.yaml"))


def geometry(name: str) -> ModelGeometry:
    return read_geometry(checkpoint(name)["declared"])


def absent(name: str) -> CheckpointFacts:
    """The facts of a checkpoint whose files are not here."""
    content = checkpoint(name)
    size = content.get("declared_weight_bytes")
    return CheckpointFacts(name, present=False, root=None, config=content["declared"], weight_bytes=size)


def v100(**limits: Any) -> DeploymentConfig:
    config = DeploymentConfig()
    config.engine.name, config.kv.dtype = EngineName.v100, "fp8_e4m3"
    config.limits.tensor_parallel, config.limits.max_model_len, config.limits.max_num_seqs = 4, 262144, 4
    for name, value in limits.items():
        setattr(config.limits, name, value)
    return config


def dflash2() -> DeploymentConfig:
    config = v100()
    for name, value in OmegaConf.load(CONF / "speculative" / "dflash2.yaml").items():
        setattr(config.speculative, str(name), value)
    return config


def purposes(budget: Budget) -> dict[str, Term]:
    return {term.purpose: term for term in budget.terms}


def tensor(name: str, *shape: int) -> TensorFacts:
    count = 1
    for side in shape:
        count *= side
    return TensorFacts(name, "F16", shape, 2 * count, "model.safetensors")
