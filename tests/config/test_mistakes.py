"""What a user reads after a mistake on the command line: the whole text, and the exit code."""

import sys

import cli
import pytest

from toolkit import plan
from toolkit.config.schema.verbs import PlanConfig
from toolkit.verb import run_verb

LIMITS = (
    "limits has: max_model_len, max_num_seqs, max_num_batched_tokens, tensor_parallel, kv_cache_memory_bytes, "
    "for_tokens, for_concurrency, gpu_memory_utilization, block_size, prefix_caching, ngram_embedding"
)
QUOTE = "write key=value; quote values with spaces, commas or brackets: 'key=\"a, b\"'"
RECIPES = "there are: dcp2_e4m3, qwen38_27b_nvfp4, qwen38_27b_nvfp4_dflash2, smollm2_cpu, smollm2_v100, tiny_random_cpu"
CHOOSE = "choose one of them, such as +recipe=dcp2_e4m3"
AMBIGUOUS = (
    "fp8 does not say which of two formats is meant: E4M3 (more precision, wants calibrated scales) or E5M2 (more "
    "range, unit scales)"
)
SEE = "see docs/config.md for every option"


def error(what: str, where: str = "command line", why: str = "", fix: str = "") -> str:
    lines = [
        f"error: {what}",
        *(f"  {name}: {text}" for name, text in (("where", where), ("why", why), ("fix", fix)) if text),
    ]
    return "\n".join(lines) + "\n"


MISTAKES = {
    # Names that do not exist.
    "limits.max_modle_len=1": error("unknown option 'limits.max_modle_len'", fix="did you mean limits.max_model_len?"),
    "+limits.max_modle_len=1": error(
        "unknown option 'limits.max_modle_len'", "configuration", LIMITS, "did you mean limits.max_model_len?"
    ),
    "++limits.max_modle_len=1": error(
        "unknown option 'limits.max_modle_len'", "configuration", LIMITS, "did you mean limits.max_model_len?"
    ),
    "+checkpoint.source.pth=/x": error(
        "unknown option 'checkpoint.source.pth'",
        "configuration",
        "checkpoint.source has: kind, path, repository, revision, package, version, file, sha256, seed",
        "did you mean checkpoint.source.path?",
    ),
    "+limit.max_model_len=1": error("unknown option 'limit'", "configuration", fix=SEE),
    "+max_model_len=1": error(
        "unknown option 'max_model_len'", "configuration", fix="did you mean limits.max_model_len?"
    ),
    "max_model_len=1": error("unknown option 'max_model_len'", fix="did you mean limits.max_model_len?"),
    "port=8001": error("unknown option 'port'", fix="did you mean server.port?"),
    "tensor_parallel=2": error("unknown option 'tensor_parallel'", fix="did you mean limits.tensor_parallel?"),
    "foo=1": error("unknown option 'foo'", fix=SEE),
    "+foo.bar.baz=1": error("unknown option 'foo'", "configuration", fix=SEE),
    "limits={max_modle_len: 1}": error(
        "unknown option 'limits.max_modle_len'", fix="did you mean limits.max_model_len?"
    ),
    "~limits.max_modle_len": error("unknown option 'limits.max_modle_len'", fix="did you mean limits.max_model_len?"),
    "prot=80": error("unknown option 'prot'", fix=SEE),
    "server.prot=80": error("unknown option 'server.prot'", fix="did you mean server.port?"),
    # Choices that do not exist.
    "kv=fp8": error("kv=fp8 is ambiguous", "kv", AMBIGUOUS, "write kv=fp8_e4m3 or kv=fp8_e5m2"),
    "kv=fp8_e4m2": error(
        "there is no kv named 'fp8_e4m2'",
        "kv=fp8_e4m2",
        "there are: float16, fp8_e4m3, fp8_e5m2",
        "did you mean kv=fp8_e4m3 or kv=fp8_e5m2?",
    ),
    "dcp=3": error("there is no dcp named '3'", "dcp=3", "there are: 1, 2", "choose one of them, such as dcp=1"),
    "+recipe=smolm2_cpu": error(
        "there is no recipe named 'smolm2_cpu'", "+recipe=smolm2_cpu", RECIPES, "did you mean +recipe=smollm2_cpu?"
    ),
    "+recipe=../plan": error("there is no recipe named '../plan'", "+recipe=../plan", RECIPES, CHOOSE),
    "+recipe=": error("there is no recipe named ''", "+recipe=", RECIPES, CHOOSE),
    "kv=null": error("a group's choice is the name of a file", fix="write GROUP=NAME, or GROUP.OPTION=VALUE"),
    "kv=[float16,fp8_e4m3]": error(
        "several choices in 'kv=[float16,fp8_e4m3]'",
        why="one plan has one choice of each group",
        fix="write GROUP=NAME, or -m GROUP=NAME,OTHER for one job each",
    ),
    # Signs.
    "recipe=smollm2_cpu": error("a recipe is added, not overridden", fix="write +recipe=NAME with the plus sign"),
    "++recipe=smollm2_cpu": error("'++recipe=smollm2_cpu' has too many plus signs", fix="write +recipe=smollm2_cpu"),
    "++kv=float16": error("'++kv=float16' has too many plus signs", fix="write kv=float16"),
    "+kv=fp8_e4m3": error(
        "kv is already chosen",
        "configuration",
        fix="on the command line write kv=fp8_e4m3 without a plus sign; in a file, `override /kv: fp8_e4m3`",
    ),
    "+limits.max_num_seqs=1": error(
        "'limits.max_num_seqs' exists already", fix="write limits.max_num_seqs=VALUE without the plus sign"
    ),
    "engine.environment.OMP_NUM_THREADS=2": error(
        "'engine.environment' has no 'OMP_NUM_THREADS' yet",
        fix="add it with a plus sign: +engine.environment.OMP_NUM_THREADS=VALUE",
    ),
    "~limits.max_model_len": error(
        "'~limits.max_model_len' cannot be taken away", fix="give the option another value instead"
    ),
    "~kv=fp8_e4m3": error("'kv' cannot be changed in this way", fix="write kv=NAME or kv.OPTION=VALUE"),
    "kv@foo=float16": error("'kv' cannot be changed in this way", fix="write kv=NAME or kv.OPTION=VALUE"),
    "+kv@foo=float16": error("unknown option 'foo'", "kv/float16.yaml", fix=SEE),
    # Values.
    "limits.max_model_len=abc": error(
        "wrong value in 'limits.max_model_len=abc'",
        why="Value 'abc' of type 'str' could not be converted to Integer",
        fix="limits.max_model_len takes a whole number: limits.max_model_len=N",
    ),
    "limits.max_model_len=1.5": error(
        "wrong value in 'limits.max_model_len=1.5'",
        why="Value '1.5' of type 'float' could not be converted to Integer",
        fix="limits.max_model_len takes a whole number: limits.max_model_len=N",
    ),
    "limits.for_tokens=inf": error(
        "wrong value in 'limits.for_tokens=inf'",
        why="Value 'inf' of type 'float' could not be converted to Integer",
        fix="limits.for_tokens takes a whole number: limits.for_tokens=N",
    ),
    "limits.for_concurrency=many": error(
        "wrong value in 'limits.for_concurrency=many'",
        why="Value 'many' of type 'str' could not be converted to Float",
        fix="limits.for_concurrency takes a number: limits.for_concurrency=N",
    ),
    "limits.max_model_len=null": error(
        "wrong value in 'limits.max_model_len=null'",
        why="field 'limits.max_model_len' is not Optional",
        fix="limits.max_model_len takes no null: leave it out, or give it a value",
    ),
    "engine.name=V100": error(
        "wrong value in 'engine.name=V100'",
        why="Invalid value 'V100', expected one of [cpu, v100]",
        fix="write engine.name=cpu or engine.name=v100",
    ),
    "output=yaml": error(
        "wrong value in 'output=yaml'",
        why="Invalid value 'yaml', expected one of [text, json, html]",
        fix="write output=text or output=json or output=html",
    ),
    "engine.compile=maybe": error(
        "wrong value in 'engine.compile=maybe'",
        why="Value 'maybe' is not a valid bool (type str)",
        fix="write engine.compile=true or engine.compile=false",
    ),
    "engine.inherit=PATH": error(
        "wrong value in 'engine.inherit=PATH'",
        why="Invalid value assigned: str is not a ListConfig, list or tuple.",
        fix="engine.inherit takes a list: engine.inherit=[A,B]",
    ),
    "engine.environment=1": error(
        "wrong value in 'engine.environment=1'",
        why="Cannot assign int to Dict[str, str]",
        fix="write +engine.environment.NAME=VALUE",
    ),
    "checkpoint.name=???": error(
        "no value for 'checkpoint.name'", "configuration", fix="set it on the command line: checkpoint.name=VALUE"
    ),
    "~checkpoint": error(
        "no value for 'checkpoint.name'", "configuration", fix="set it on the command line: checkpoint.name=VALUE"
    ),
    "kv=float16,fp8_e4m3": error(
        "several values in 'kv=float16,fp8_e4m3'",
        why="without -m an option has one value",
        fix="add -m for one job each, or quote a text with commas: \"kv='float16,fp8_e4m3'\"",
    ),
    "limits.max_num_seqs=range(1,3)": error(
        "several values in 'limits.max_num_seqs=range(1,3)'",
        why="without -m an option has one value",
        fix="add -m for one job each, or quote a text with commas: \"limits.max_num_seqs='range(1,3)'\"",
    ),
    # Interpolations.
    "server.api_key_file=${oc.env:HOME}": error(
        "'${oc.env:HOME}' is refused",
        "server.api_key_file",
        "configuration holds values only; it reads neither the environment nor the clock nor files",
        "write the value itself",
    ),
    "+checkpoint.declared.deep=[{a: '${now:%Y}'}]": error(
        "'${now:%Y}' is refused",
        "checkpoint.declared.deep[0].a",
        "configuration holds values only; it reads neither the environment nor the clock nor files",
        "write the value itself",
    ),
    "limits.max_num_seqs=${limits.max_num_seq}": error(
        "'${limits.max_num_seq}' names no option", "configuration", fix="did you mean limits.max_num_seqs?"
    ),
    # What cannot be read at all.
    "kv": error("cannot read 'kv'", fix=QUOTE),
    "smollm2_cpu": error("cannot read 'smollm2_cpu'", fix="did you mean +recipe=smollm2_cpu?"),
    "server.host=a b,": error("cannot read 'server.host=a b,'", fix=QUOTE),
    "--config-dir=/nowhere": error("there is no folder /nowhere", "--config-dir", fix="name one with recipe/*.yaml"),
    "--config-path=/tmp": error(
        "--config-path is refused",
        why="it would hide the toolkit's own files",
        fix="add a folder with --config-dir DIR",
    ),
    "--config-name=nope": error("there is no configuration file 'nope'"),
    "hydra.searchpath=[/tmp]": error(
        "hydra.searchpath is refused",
        why="it adds folders and packages unseen",
        fix="add a folder with --config-dir DIR",
    ),
}


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The verb in this process: fifty interpreters would take a minute."""
    monkeypatch.setattr(sys, "argv", ["toolkit-plan", *arguments])
    return run_verb("plan", PlanConfig, plan.run)


@pytest.mark.parametrize("argument", MISTAKES)
def test_a_mistake_is_explained(monkeypatch, capsys, argument):
    code = call(monkeypatch, argument)
    printed = capsys.readouterr()
    assert printed.err == MISTAKES[argument]
    assert (code, printed.out) == (2, "")


@pytest.mark.parametrize(
    "argument",
    ["limits.max_modle_len=1", "+limits.max_modle_len=1", "kv=fp8", "recipe=smollm2_cpu", "--config-dir=/nowhere"],
)
def test_a_process_says_the_same(argument):
    result = cli.call("plan", argument)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", MISTAKES[argument])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--bogus"], "toolkit-plan: error: unrecognized arguments: --bogus"),
        (
            ["--cfg", "jobs"],
            "toolkit-plan: error: argument --cfg/-c: invalid choice: 'jobs' (choose from 'job', 'hydra', 'all')",
        ),
    ],
)
def test_an_unknown_flag_is_a_usage_error(monkeypatch, capsys, arguments, line):
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, *arguments)
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == line


def test_two_recipes_are_one_too_many(monkeypatch, capsys):
    assert call(monkeypatch, "+recipe=smollm2_cpu", "+recipe=tiny_random_cpu") == 2
    assert cli.first_line(capsys.readouterr().err) == "error: recipe is already chosen"
