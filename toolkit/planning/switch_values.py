"""Settling each switch: an explicit value, else the public fork's variable, else the default rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.plan import SwitchValue

VALUES = {"0": False, "1": True}
"""What the public fork's variables hold; any other text is left out, and a rule says so."""


def settle(config: DeploymentConfig, environment: Mapping[str, str]) -> tuple[SwitchValue, ...]:
    """Every switch with its value, where it came from and why."""
    return tuple(
        _settle(field.name, getattr(config.switches, field.name), field.metadata, config, environment)
        for field in fields(config.switches)
    )


def _settle(
    name: str,
    explicit: bool | None,
    metadata: Mapping[str, str],
    config: DeploymentConfig,
    environment: Mapping[str, str],
) -> SwitchValue:
    alias = metadata["alias"]
    if explicit is not None:
        return SwitchValue(name, explicit, "explicit", f"switches.{name} is set", alias)
    text = environment.get(alias, "")
    if text in VALUES:
        return SwitchValue(name, VALUES[text], "environment", f"{alias}={text} is set in the shell", alias)
    value_by_rule, reason = default(metadata["default"], config)
    return SwitchValue(name, value_by_rule, "default", reason, alias)


def default(rule: str, config: DeploymentConfig) -> tuple[bool, str]:
    """A default rule's value for this deployment, and the reason; ValueError for a rule that does not exist."""
    if config.engine.name is not EngineName.v100:
        return False, "only engine=v100 has this route"
    if rule == "on_v100":
        return True, "on for engine=v100"
    if rule == "on_with_e4m3":
        return (
            config.kv.dtype == "fp8_e4m3",
            "on with an E4M3 cache" if config.kv.dtype == "fp8_e4m3" else "no E4M3 cache",
        )
    if rule == "on_with_dflash2":
        on = config.speculative.method == "dflash2"
        return on, "on with DFlash2 drafts" if on else "no DFlash2 drafts"
    if rule == "off":
        return False, "off unless it is asked for"
    raise ValueError(f"unknown default rule {rule!r}")
