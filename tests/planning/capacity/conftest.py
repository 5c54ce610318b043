"""Deployments as recipes compose them, for tests of the formulas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.geometry import ModelGeometry, read_geometry

CONF = Path(__file__).parents[3] / "conf"
V100_LIMITS = {"max_model_len": 262144, "max_num_batched_tokens": 8192, "tensor_parallel": 4, "max_num_seqs": 4}


def _deployment(**options: Any) -> DeploymentConfig:
    config = OmegaConf.structured(DeploymentConfig(), flags={"allow_objects": True})
    config.checkpoint.name = "any"
    config.checkpoint.source.kind = "local"
    for group, value in options.items():
        content = OmegaConf.load(CONF / group / f"{value}.yaml") if isinstance(value, str) else value
        config = OmegaConf.merge(config, {group: content})
    return OmegaConf.to_object(config)


def _v100(**options: Any) -> DeploymentConfig:
    limits = V100_LIMITS | options.pop("limits", {})
    return _deployment(**{"kv": "fp8_e4m3", "engine": "v100", "limits": limits} | options)


def _geometry(name: str) -> ModelGeometry:
    return read_geometry(OmegaConf.to_container(OmegaConf.load(CONF / "checkpoint" / f"{name}.yaml"))["declared"])


@pytest.fixture(scope="session")
def deployment() -> Callable[..., DeploymentConfig]:
    """A deployment from group files (`kv="fp8_e4m3"`) and values (`limits={...}`), over the schema's defaults."""
    return _deployment


@pytest.fixture(scope="session")
def v100() -> Callable[..., DeploymentConfig]:
    """Four V100s, E4M3 keys and values, 262,144 tokens: the setting of most published numbers."""
    return _v100


@pytest.fixture(scope="session")
def geometry() -> Callable[[str], ModelGeometry]:
    """The shapes that conf/checkpoint/NAME.yaml declares."""
    return _geometry
