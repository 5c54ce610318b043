"""The table of the engine's arguments against vLLM's own parser, and every spelling that it takes."""

import subprocess
import sys

import cases
import pytest

from toolkit.planning.command import engine_command
from toolkit.planning.engine_arguments import NAMES, SHORT, canonical, is_argument
from toolkit.planning.extra_arguments import given, value_of
from toolkit.planning.rules.arguments import PLANNED
from toolkit.planning.rules.unplanned import TOKENIZERS

PRINTED = """
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
print("names:", *(option for action in parser._actions for option in action.option_strings))
print("alike:", *("=".join(action.option_strings) for action in parser._actions))
"""
LEFT_TO_THE_USER = {"--generation-config", "--seed"}
"""What the plan writes and an argument may overrule without changing a size or a route."""


@pytest.fixture(scope="module")
def upstream():
    """What vLLM's parser says, by the first word of a line."""
    pytest.importorskip("vllm")
    done = subprocess.run([sys.executable, "-c", PRINTED], capture_output=True, text=True, check=True)
    lines = (line.split() for line in done.stdout.splitlines() if line.startswith(("names:", "alike:")))
    return {first: others for first, *others in lines}


def test_a_short_name_overrules_what_its_long_one_does(upstream):
    alike = [set(options.split("=")) for options in upstream["alike:"]]
    for short in (name for name in PLANNED if not name.startswith("--")):
        (options,) = (options for options in alike if short in options)
        assert {PLANNED.get(option) for option in options} == {PLANNED[short]}


def test_the_names_are_upstreams(upstream):
    names = upstream["names:"]
    long = {name.removeprefix("--") for name in names if name.startswith("--")}
    assert {name for name in long if name.removeprefix("no-") not in long} == set()
    assert {name for name in long if not name.startswith("no-")} == NAMES
    assert {name for name in names if not name.startswith("--")} | {"-O"} == SHORT


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("--max-model-len", "--max-model-len"),
        ("--max_model_len=5", "--max-model-len"),
        ("--max-model=5", "--max-model-len"),
        ("--no-enable-prefix-caching", "--no-enable-prefix-caching"),
        ("--no_enable_prefix", "--no-enable-prefix-caching"),
        ("--compilation-config.mode", "--compilation-config.mode"),
        ("--compilation_config.cudagraph_mode=NONE", "--compilation-config.cudagraph_mode"),
        ("--max", None),
        ("--no-such-argument", None),
        ("--calculate-kv-scales", None),
        ("-tp", "-tp"),
        ("-tp2", None),
        ("-dp1", None),
        ("-dp=1", "-dp"),
        ("-cc.mode=3", "-cc"),
        ("-qfp8", "-q"),
        ("-dpl=1", "-dpl"),
        ("-O3", "-O"),
        ("-x", None),
    ],
)
def test_every_spelling_names_one_argument(word, name):
    assert canonical(word) == name
    assert is_argument(word)


def test_a_value_is_no_argument():
    assert [is_argument(word) for word in ("-1", "-0.5", "8", "a-b", "")] == [False] * 5


def test_arguments_are_found_in_any_spelling():
    arguments = ["--max_logprobs", "-1", "--language_model=x", "--kv_offloading_size=3"]
    assert value_of(arguments, "--max-logprobs") == "-1"
    assert value_of(arguments, "--kv-offloading-size") == "3"
    assert given(arguments, "--language-model-only")
    assert not given(arguments, "--max-model-len")


@pytest.mark.parametrize("words", [["-qfp8"], ["-q=fp8"], ["-q", "fp8"]])
def test_a_value_follows_one_letter_at_once(words):
    assert value_of([*words, "other"], "-q") == "fp8"


def test_the_tokenizers_are_upstreams():
    registry = pytest.importorskip("vllm.tokenizers.registry")
    assert {*TOKENIZERS} == {"auto", *registry._VLLM_TOKENIZERS}


@pytest.mark.parametrize("make", [cases.config, cases.on_v100], ids=["cpu", "v100"])
def test_what_the_plan_writes_is_refused_beside_it(make):
    """Otherwise a second argument would quietly overrule the first."""
    draft = {"speculative__method": "draft_model", "speculative__draft_path": "/d", "speculative__tokens": 2}
    config = make(limits__tensor_parallel=4, dcp__size=2, limits__block_size=128, **draft)
    argv = engine_command(config, "model", "python", {}).argv
    written = {word for word in argv if word.startswith("--")}
    assert {canonical(word) for word in written} == written
    assert written - LEFT_TO_THE_USER <= PLANNED.keys()
