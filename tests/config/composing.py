"""Composition in this process, for tests that need many."""

from toolkit.config.command_line import read_command_line
from toolkit.config.composed import Composed, checked
from toolkit.config.composition import prepare
from toolkit.config.one_job import compose_once
from toolkit.config.schema.verbs import PlanConfig, ServeConfig
from toolkit.config.search_path import shipped_conf

SCHEMAS = {"plan": PlanConfig, "serve": ServeConfig}


def compose(*arguments: str, verb: str = "plan") -> Composed:
    prepare(verb, SCHEMAS[verb])
    return checked(compose_once(verb, read_command_line(arguments, shipped_conf())), SCHEMAS[verb])


def at(values: object, key: str) -> object:
    for part in key.split("."):
        values = values[part] if isinstance(values, dict) else getattr(values, part)
    return values
