"""Rules about variables and plugins that decide which platform the engine takes, and with what."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.planning.plan import Severity
from toolkit.planning.platform_demand import VARIABLE
from toolkit.planning.rules.rule import Context, Problem, Rule

PLUGIN = "volta"
"""The name of our entry points."""


def variable_against_plan(context: Context) -> Iterator[Problem]:
    """Some variables take back what the plan decided, and the engine says little of it."""
    engine = context.config.engine
    v100 = engine.name is EngineName.v100
    for name, value in engine.environment.items():
        reason = _against(name, value, v100)
        if reason is not None:
            yield Problem(f"engine.environment.{name}", f"{name}={value} {reason}", f"leave {name} out")


def _against(name: str, value: str, v100: bool) -> str | None:
    """What a variable's value does to the plan; None where it does nothing."""
    if name == "VLLM_PLUGINS" and PLUGIN not in value.split(","):
        return "keeps our plugin out of the engine"
    if name == VARIABLE:
        return "is for the plan to set: engine.prove_on_any_gpu says which GPUs may be taken"
    if v100 and name == "VLLM_TARGET_DEVICE" and value == "cpu":
        return "makes the engine take the CPU, whatever its plugins say"
    if v100 and name == "VLLM_USE_FLASHINFER_SAMPLER" and value != "0":
        return "asks for FlashInfer's sampler, which has no code for sm_70"
    return None


RULES = (
    Rule(
        "variable-against-plan",
        "No variable takes back what was planned",
        Severity.refuse,
        variable_against_plan,
        "vLLM 0.32 platforms/__init__.py: resolve_current_platform_cls_qualname; vllm-project/vllm issue 27729",
    ),
)
