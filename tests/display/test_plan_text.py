"""How a plan reads."""

import re
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path, PurePosixPath

import pytest
from rich.console import Console
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parents[1] / "planning"))
import cases

import toolkit.display
from toolkit.display.machine_text import render as render_machine
from toolkit.display.plain import visible
from toolkit.display.plan_text import findings, origin_text, render, value_text
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Finding, Severity

SHIPPED = PurePosixPath("/toolkit/conf")
VALUES = {"kv": {"dtype": "fp8_e4m3"}, "limits": {"max_num_seqs": 3, "block_size": None}}
ORIGINS = {
    "kv.dtype": "/toolkit/conf/kv/fp8_e4m3.yaml",
    "limits.max_num_seqs": "command line: limits.max_num_seqs=3",
    "limits.block_size": "default",
}


def text(parts, width: int = 80, colour: bool = False) -> str:
    page = StringIO()
    console = Console(file=page, width=width, force_terminal=colour, color_system="standard" if colour else None)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text), highlight=False)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def planned(config=None, machine=None, recipe: str = "mine"):
    return make_plan(config or cases.config(), recipe, cases.facts(), machine or cases.machine())


def page(plan, width: int = 80) -> list[str]:
    return text(render(plan, ORIGINS, VALUES, SHIPPED), width).splitlines()


def section(lines: list[str], title: str) -> list[str]:
    start = lines.index(title) + 1
    end = next((index for index in range(start, len(lines)) if not lines[index]), len(lines))
    return lines[start:end]


def test_it_begins_with_the_gpus_that_it_is_for():
    values = {**VALUES, "hardware": {"gpu": "Tesla V100-PCIE-16GB", "gpu_count": 2}}
    first = text(render(planned(), ORIGINS, values, SHIPPED), 200).splitlines()[0]
    assert first == "mine: model on engine=cpu for 2 x Tesla V100-PCIE-16GB at http://127.0.0.1:8000"


def test_it_begins_with_what_it_is_and_ends_with_the_verdict():
    lines = page(planned())
    assert lines[:2] == ["mine: model on engine=cpu at http://127.0.0.1:8000", "=" * 50]
    assert lines[-1] == "this plan can be served"
    assert page(planned(cases.config(server__port=0)))[-1] == "refused: serve would not start this plan"
    assert page(planned(recipe=""))[0].startswith("no recipe: model")


def test_values_stand_below_what_set_them_and_defaults_are_left_out():
    assert section(page(planned()), "configuration, by what set it") == [
        "  kv/fp8_e4m3.yaml",
        "    kv.dtype             fp8_e4m3",
        "  command line: limits.max_num_seqs=3",
        "    limits.max_num_seqs  3",
    ]


def test_the_command_is_never_broken_by_the_page():
    plan = planned(cases.config(engine__extra_arguments=["--very-long", "x" * 300]))
    lines = section(page(plan, 60), "engine")
    assert f"    --very-long {'x' * 300}" in lines
    assert lines[0] == "  /engine/bin/python -m vllm.entrypoints.launchers.api_server.entry \\"


def test_sizes():
    known = section(page(planned(cases.config(limits__kv_cache_memory_bytes=2**28))), "KV cache")
    unknown = section(page(planned(cases.on_v100(), cases.gpu_machine())), "KV cache")
    labels = [line[2:29].strip() for line in known]
    assert labels == [
        "tokens of a block",
        "bytes of a block",
        "blocks of a full request",
        "blocks",
        "tokens",
        "full requests at once",
    ]
    assert unknown[-1] == "  blocks, tokens, requests   known after the engine's memory profiling"


def test_switches_alike_stand_together_and_all_are_named():
    plan = planned(cases.on_v100(switches__decode_xqa=False), cases.gpu_machine())
    lines = section(page(plan, 120), "switches")
    assert lines[:2] == ["  on   default: on for engine=v100", "       prefill_gqa, prefill_split_kv"]
    assert lines[2:4] == ["  off  explicit: switches.decode_xqa is set", "       decode_xqa"]
    named = [name.strip() for line in lines[1::2] for name in line.split(",")]
    assert sorted(named) == sorted(switch.name for switch in plan.switches)


def test_the_gravest_finding_is_last():
    found = [
        Finding("a", Severity.refuse, "x", "stop", "do this"),
        Finding("b", Severity.info, "y", "know"),
        Finding("c", Severity.warn, "z", "beware", "do that"),
    ]
    assert text(findings(found)).splitlines() == [
        "",
        "findings",
        "  note     b at y",
        "           know",
        "  warning  c at z",
        "           beware",
        "           fix: do that",
        "  refused  a at x",
        "           stop",
        "           fix: do this",
    ]
    assert text(findings([])) == ""


def test_rules_that_wait_for_the_same_fact_are_named_together():
    found = [
        Finding("a", Severity.unchecked, "x", "not checked, as nobody knows"),
        Finding("b", Severity.unchecked, "y", "not checked, as nobody knows"),
        Finding("c", Severity.unchecked, "z", "not checked, as nobody asked", "ask"),
    ]
    assert text(findings(found)).splitlines()[2:] == [
        "  unknown  a, b",
        "           not checked, as nobody knows",
        "  unknown  c at z",
        "           not checked, as nobody asked",
        "           fix: ask",
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_wider_than_the_page_but_lines_to_be_pasted(width):
    plan = planned(cases.on_v100(engine__dtype="bfloat16", limits__tensor_parallel=5), cases.machine())
    lines = page(plan, width)
    command = section(lines, "engine")
    assert {line for line in lines if len(line) > width} <= set(command)


def test_long_words_hang_under_their_beginning():
    values = {**VALUES, "kv": {"dtype": "v" * 100}}
    lines = section(text(render(planned(), ORIGINS, values, SHIPPED), 60).splitlines(), "configuration, by what set it")
    assert lines[1].startswith("    kv.dtype             vvv")
    assert lines[2].startswith(" " * 25 + "vvv")


def test_brackets_in_values_are_not_markup():
    values = {**VALUES, "kv": {"dtype": "[red]x[/red]"}}
    assert "[red]x[/red]" in text(render(planned(), ORIGINS, values, SHIPPED))
    assert "[bold]" in text(findings([Finding("a", Severity.info, "[bold]", "[/]", "[link=x]")]))


def test_colour_is_only_for_a_terminal():
    found = [Finding("a", Severity.refuse, "x", "stop", "do this")]
    assert "\x1b[" in text(findings(found), colour=True)
    assert "\x1b[" not in text(findings(found))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "true"),
        (None, "null"),
        (0.85, "0.85"),
        ("x y", "x y"),
        ([], "[]"),
        (["PATH"], '["PATH"]'),
        ({}, "{}"),
        ({"a": 1, "b": 2}, "2 values"),
    ],
)
def test_values_are_written_as_they_are_typed(value, shown):
    assert value_text(value) == shown


@pytest.mark.parametrize(
    ("origin", "shown"),
    [
        ("/toolkit/conf/kv/float16.yaml", "kv/float16.yaml"),
        ("/home/me/conf/kv/float16.yaml", "/home/me/conf/kv/float16.yaml"),
        ("/toolkit/config/x.yaml", "/toolkit/config/x.yaml"),
        ("command line: kv.dtype=x", "command line: kv.dtype=x"),
    ],
)
def test_origins(origin, shown):
    assert origin_text(origin, SHIPPED) == shown


EVIL = "a\x1b[31m\x07\r\u202eb[bold]"
READ = "a\\x1b[31m\\x07\\r\\u202eb[bold]"


def test_a_strangers_control_characters_are_read_and_not_obeyed():
    """Names of models, recipes and files, and what a finding says of them."""
    config = cases.config(checkpoint__name=EVIL, server__host=EVIL, engine__extra_arguments=[EVIL])
    plan = make_plan(config, EVIL, cases.facts(name=EVIL), cases.machine())
    finding = Finding(EVIL, Severity.warn, EVIL, EVIL, EVIL)
    plan = replace(plan, findings=(*plan.findings, finding))
    parts = render(plan, {"a.b": f"command line: {EVIL}"}, {"a": {"b": EVIL}}, SHIPPED)
    said = text(parts, 400)
    assert [sign for sign in said if visible(sign) != sign] == []
    assert said.count(READ) > 10


def test_machine_facts_are_read_and_not_obeyed():
    machine = cases.gpu_machine(gpus=(cases.v100(0, name=EVIL),), driver=EVIL, architecture=EVIL, disks={EVIL: 1})
    said = text(render_machine(machine, ()), 400)
    assert [sign for sign in said if visible(sign) != sign] == []
    assert said.count(READ) == 4


def test_only_colours_of_our_own_pass_through():
    assert (
        visible("\x1b[1;31mred\x1b[0m \x1b[2J\tb\nc\x9b", coloured=True) == "\x1b[1;31mred\x1b[0m \\x1b[2J\tb\nc\\x9b"
    )
    assert visible("\x1b[1;31mred") == "\\x1b[1;31mred"
    assert visible("Grüße, 你好, שלום 🙂") == "Grüße, 你好, שלום 🙂"


def test_no_text_comes_to_a_terminal_by_another_way():
    """Only toolkit/display/words.py makes rich's Text, which obeys control characters."""
    display = Path(toolkit.display.__file__).parent
    makers = {path.name for path in display.glob("*.py") if re.search(r"\bText[(.]", path.read_text("utf-8"))}
    assert makers == {"words.py"}
