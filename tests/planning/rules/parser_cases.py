"""Cases of rules about parsers of tool calls and reasoning: see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.planning.parsers import REASONING_PARSERS, TOOL_PARSERS
from toolkit.planning.plan import Severity

config, llama, hybrid = cases.config, cases.llama, cases.hybrid
WHERE = "engine.extra_arguments"
QWEN3 = llama(architectures=["Qwen3ForCausalLM"], model_type="qwen3")
QWEN2 = llama(architectures=["Qwen2ForCausalLM"], model_type="qwen2")
UNKNOWN, FAMILY = "parser-unknown", "parser-of-another-family"


def asked(*arguments):
    return config(engine__extra_arguments=list(arguments))


def no_such(name, argument, known, plugin):
    fix = f"use one of {', '.join(sorted(known))}, or bring it with {plugin}"
    return (WHERE, f"vLLM 0.32 has no parser '{name}' for {argument}", fix)


def reads_others(argument, model_type, *fitting):
    return (WHERE, f"{argument} does not read what {model_type} models write", f"use {' or '.join(fitting)}")


TOOLS = no_such("qwen3", "--tool-call-parser", TOOL_PARSERS, "--tool-parser-plugin")
REASONING = no_such("qwen", "--reasoning-parser", REASONING_PARSERS, "--reasoning-parser-plugin")
CODER = ("qwen3_coder", "qwen3_xml", "hf")

CASES = [
    Case(UNKNOWN, TOOLS, asked("--enable-auto-tool-choice", "--tool-call-parser", "qwen3")),
    Case(UNKNOWN, REASONING, asked("--reasoning-parser=qwen", "--tool-parser-plugin=mine.py")),
    Case(UNKNOWN, None, asked("--reasoning-parser=qwen3", "--tool-call-parser", "qwen3_coder")),
    Case(UNKNOWN, None, asked("--reasoning-parser=qwen", "--reasoning-parser-plugin=mine.py")),
    Case(UNKNOWN, None, config()),
    Case(
        "tool-choice-without-parser",
        (
            WHERE,
            "--enable-auto-tool-choice needs --tool-call-parser",
            "add --tool-call-parser=NAME for this model's family",
        ),
        asked("--enable-auto-tool-choice"),
    ),
    Case("tool-choice-without-parser", None, asked("--enable-auto-tool-choice", "--tool-call-parser=hermes")),
    Case("tool-choice-without-parser", None, config()),
    Case(
        FAMILY,
        reads_others("--tool-call-parser=hermes", "qwen3_5", *CODER),
        asked("--tool-call-parser=hermes", "--reasoning-parser=qwen3"),
        hybrid(),
    ),
    Case(
        FAMILY,
        reads_others("--reasoning-parser=minimax_m2", "qwen3", "qwen3", "deepseek_r1", "hf"),
        asked("--tool-call-parser=hermes", "--reasoning-parser=minimax_m2"),
        QWEN3,
    ),
    Case(FAMILY, None, asked("--tool-call-parser=qwen3_xml", "--reasoning-parser=qwen3"), hybrid()),
    Case(FAMILY, None, asked("--tool-call-parser=llama3_json"), llama()),
    Case(FAMILY, None, asked("--reasoning-parser=deepseek_r1"), QWEN2),
    Case(FAMILY, None, asked("--tool-call-parser=mine", "--tool-parser-plugin=mine.py"), hybrid()),
    Case(FAMILY, None, config(), cases.facts(config={})),
    waits(
        FAMILY,
        "checkpoint",
        "config.json names no model_type",
        asked("--reasoning-parser=qwen3"),
        checkpoint=cases.facts(config={}),
    ),
]
SEVERITIES = {FAMILY: Severity.warn}
