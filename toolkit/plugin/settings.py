"""What the plan tells the plugin: one JSON object in vLLM's `--additional-config`, under the key `volta`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KEY = "volta"


@dataclass(frozen=True)
class Settings:
    """The entries that a worker reads; those of other parts of the plugin are left to them."""

    engine: str = ""
    """`cpu` or `v100`."""
    switches: Mapping[str, bool] = field(default_factory=dict)
    reports: str | None = None
    """Folder of the workers' reports, relative to the working directory; None writes none."""
    measurements: str | None = None
    """Folder in which calibration asks for measurements of keys and values, and finds them; None measures nothing."""


def settings_of(vllm_config: Any) -> Settings:
    """The settings in a vLLM configuration; defaults where vLLM was started without our plan."""
    extra = getattr(vllm_config, "additional_config", None)
    told = extra.get(KEY) if isinstance(extra, Mapping) else None
    told = told if isinstance(told, Mapping) else {}
    return Settings(
        engine=str(told.get("engine", "")),
        switches=dict(told.get("switches", {})),
        reports=told.get("reports"),
        measurements=told.get("measurements"),
    )
