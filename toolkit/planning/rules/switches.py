"""Rules about switches, and the variables by which users of the public fork set them."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule
from toolkit.planning.switch_values import VALUES, settle


def switch_from_environment(context: Context) -> Iterator[Problem]:
    """A variable of the shell decides a switch; the next shell may not have it."""
    for switch in settle(context.config, context.machine.environment):
        if switch.source == "environment":
            value = str(switch.value).lower()
            yield Problem(
                f"switches.{switch.name}",
                f"{switch.alias} in the shell turns it {'on' if switch.value else 'off'}",
                f"write switches.{switch.name}={value} to keep it",
            )


def switch_variable_unreadable(context: Context) -> Iterator[Problem]:
    """The fork reads 0 and 1; any other value is not guessed at."""
    environment = context.machine.environment
    for switch in settle(context.config, environment):
        text = environment.get(switch.alias)
        if text is not None and text not in VALUES:
            yield Problem(
                switch.alias,
                f"'{text}' is neither 0 nor 1, so switches.{switch.name} does not take it",
                f"write switches.{switch.name}=true or false, and unset {switch.alias}",
            )


def switch_without_route(context: Context) -> Iterator[Problem]:
    """Only engine=v100 has the routes; elsewhere a switch that is on does nothing."""
    if context.config.engine.name is EngineName.v100:
        return
    for switch in settle(context.config, context.machine.environment):
        if switch.value:
            yield Problem(
                f"switches.{switch.name}",
                f"it is on, and engine={context.config.engine.name.value} has no such route",
                "leave it to its default, or use engine=v100",
            )


RULES = (
    Rule(
        "switch-from-environment",
        "Switches are set by configuration",
        Severity.info,
        switch_from_environment,
        "docs/config.md, section 'switches'",
    ),
    Rule(
        "switch-variable-unreadable",
        "Switch variables are 0 or 1",
        Severity.warn,
        switch_variable_unreadable,
        "docs/config.md, section 'switches'",
    ),
    Rule(
        "switch-without-route",
        "A switch that is on has a route",
        Severity.warn,
        switch_without_route,
        "docs/config.md, section 'switches'",
    ),
)
