"""Rules about what turns a model's text into tool calls and reasoning."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.planning.extra_arguments import given, value_of
from toolkit.planning.parsers import REASONING_PARSERS, TOOL_PARSERS, spoken_by
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, unknown

WHERE = "engine.extra_arguments"
TOOLS, REASONING = "--tool-call-parser", "--reasoning-parser"
KNOWN = {TOOLS: TOOL_PARSERS, REASONING: REASONING_PARSERS}
PLUGINS = {TOOLS: "--tool-parser-plugin", REASONING: "--reasoning-parser-plugin"}


def parser_unknown(context: Context) -> Iterator[Problem]:
    """A name that no parser has is refused after the model is loaded."""
    arguments = context.config.engine.extra_arguments
    for argument, known in KNOWN.items():
        name = value_of(arguments, argument)
        if name is not None and name not in known and value_of(arguments, PLUGINS[argument]) is None:
            yield Problem(
                WHERE,
                f"vLLM 0.32 has no parser '{name}' for {argument}",
                f"use one of {', '.join(sorted(known))}, or bring it with {PLUGINS[argument]}",
            )


def tool_choice_without_parser(context: Context) -> Iterator[Problem]:
    """Choosing tools by itself needs a parser that finds the calls."""
    arguments = context.config.engine.extra_arguments
    if given(arguments, "--enable-auto-tool-choice") and value_of(arguments, TOOLS) is None:
        yield Problem(WHERE, f"--enable-auto-tool-choice needs {TOOLS}", f"add {TOOLS}=NAME for this model's family")


def parser_of_another_family(context: Context) -> Iterator[Problem]:
    """A parser that waits for other marks finds no call and no reasoning, and says nothing of it."""
    arguments = context.config.engine.extra_arguments
    asked = {argument: value_of(arguments, argument) for argument in KNOWN}
    if not any(asked.values()):
        return
    model_type = context.checkpoint.config.get("model_type")
    if not isinstance(model_type, str):
        yield unknown("checkpoint", "config.json names no model_type")
        return
    family = spoken_by(model_type)
    if family is None:
        return
    for argument, fitting in ((TOOLS, family.tools), (REASONING, family.reasoning)):
        name = asked[argument]
        if name in KNOWN[argument] and fitting and name not in fitting:
            yield Problem(
                WHERE,
                f"{argument}={name} does not read what {model_type} models write",
                f"use {' or '.join(fitting)}",
            )


RULES = (
    Rule(
        "parser-unknown",
        "The parsers are vLLM's",
        Severity.refuse,
        parser_unknown,
        "vLLM 0.32 entrypoints/launchers/launcher.py: validate_api_server_args",
    ),
    Rule(
        "tool-choice-without-parser",
        "Tool calls have a parser",
        Severity.refuse,
        tool_choice_without_parser,
        "vLLM 0.32 entrypoints/launchers/cli_args.py: validate_parsed_serve_args",
    ),
    Rule(
        "parser-of-another-family",
        "The parsers read what the model writes",
        Severity.warn,
        parser_of_another_family,
        "1CatAI/1Cat-vLLM issues 52, 74 and 86; vLLM documentation, page 'Tool Calling'",
    ),
)
