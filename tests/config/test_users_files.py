"""What the owner of a wrong recipe file reads."""

import sys

import cli
import pytest

from toolkit import plan
from toolkit.config.schema.verbs import PlanConfig
from toolkit.verb import run_verb

GLOBAL = "# @package _global_\n"
SHAPE = 'each entry is `- override /GROUP: NAME` or `- NAME`; a name of digits is quoted, as in `/dcp: "2"`'
VALUES_ONLY = "configuration holds values only; this would let a file run code"

FILES = {
    "a key that does not exist": (
        GLOBAL + "limits: {max_modle_len: 3}",
        "unknown option 'limits.max_modle_len'\n  where: recipe/x.yaml\n  fix: did you mean limits.max_model_len?",
    ),
    "a group that does not exist": (
        GLOBAL + "limit: {max_model_len: 3}",
        "unknown option 'limit'\n  where: recipe/x.yaml\n  fix: see docs/config.md for every option",
    ),
    "a wrong type": (
        GLOBAL + "limits: {max_model_len: abc}",
        (
            "wrong value for 'limits.max_model_len'\n  where: recipe/x.yaml\n"
            "  why: Value 'abc' of type 'str' could not be converted to Integer\n"
            "  fix: limits.max_model_len takes a whole number: limits.max_model_len=N"
        ),
    ),
    "null for a group": (
        GLOBAL + "limits: null",
        (
            "wrong value for 'limits'\n  where: recipe/x.yaml\n  why: field 'limits' is not Optional\n"
            "  fix: limits takes no null: leave it out, or give it a value"
        ),
    ),
    "no header": (
        "limits: {max_model_len: 3}",
        (
            "unknown option 'recipe.limits'\n  where: recipe/x.yaml\n"
            "  fix: begin the file with the line `# @package _global_`"
        ),
    ),
    "an integer in the defaults list": (
        GLOBAL + "defaults:\n  - override /dcp: 2",
        (
            "x.yaml has a defaults list that cannot be read: {'override /dcp': 2}\n  where: DIR/recipe/x.yaml\n"
            f"  fix: {SHAPE}"
        ),
    ),
    "a choice that does not exist": (
        GLOBAL + "defaults: [{override /kv: fp9}]",
        (
            "there is no kv named 'fp9'\n  where: kv=fp9\n  why: there are: float16, fp8_e4m3, fp8_e5m2\n"
            "  fix: choose one of them, such as kv=float16"
        ),
    ),
    "fp8 without its format": (
        GLOBAL + "defaults: [{override /kv: fp8}]",
        (
            "kv=fp8 is ambiguous\n  where: kv\n  why: fp8 does not say which of two formats is meant: E4M3 (more "
            "precision, wants calibrated scales) or E5M2 (more range, unit scales)\n"
            "  fix: write kv=fp8_e4m3 or kv=fp8_e5m2"
        ),
    ),
    "an override without its slash": (
        GLOBAL + "defaults: [{override kv: float16}]",
        (
            "the override of 'recipe/kv@kv' has nothing to override\n  where: recipe/x.yaml\n"
            "  fix: write `override /kv: NAME`, with the slash"
        ),
    ),
    "a choice without the word override": (
        GLOBAL + "defaults: [{/kv: fp8_e4m3}]",
        (
            "kv is already chosen\n  where: configuration\n  fix: on the command line write kv=fp8_e4m3 without a "
            "plus sign; in a file, `override /kv: fp8_e4m3`"
        ),
    ),
    "an override that is not last": (
        GLOBAL + "defaults: [{override /kv: fp8_e4m3}, smollm2_cpu]",
        (
            "the override 'kv : fp8_e4m3' stands before 'recipe@_global_: smollm2_cpu'\n  where: recipe/x.yaml\n"
            "  fix: put overrides at the end of the defaults list"
        ),
    ),
    "another file that does not exist": (
        GLOBAL + "defaults: [/nope/y]",
        "there is no configuration file 'nope/y'\n  where: recipe/x",
    ),
    "a secret of the shell": (
        GLOBAL + "server: {api_key_file: '${oc.env:HOME}/key'}",
        (
            "'${oc.env:HOME}' is refused\n  where: server.api_key_file\n  why: configuration holds values only; it "
            "reads neither the environment nor the clock nor files\n  fix: write the value itself"
        ),
    ),
    "a tag": (
        GLOBAL + "limits: !!python/object/apply:os.system [x]",
        (
            "x.yaml cannot be read as YAML\n  where: DIR/recipe/x.yaml\n"
            "  why: could not determine a constructor "
            "for the tag 'tag:yaml.org,2002:python/object/apply:os.system' (line 2)"
        ),
    ),
    "code": (
        GLOBAL + "limits: {_target_: os.system}",
        (
            "x.yaml may not set '_target_'\n  where: DIR/recipe/x.yaml\n"
            f"  why: {VALUES_ONLY}\n  fix: remove it; Hydra's own settings are given on the command line"
        ),
    ),
    "half a file": (
        GLOBAL + "limits: {",
        (
            "x.yaml cannot be read as YAML\n  where: DIR/recipe/x.yaml\n"
            "  why: expected the node content, but found '<stream end>' (line 3)"
        ),
    ),
    "a tab": (
        GLOBAL + "limits:\n\tmax_model_len: 3",
        (
            "x.yaml cannot be read as YAML\n  where: DIR/recipe/x.yaml\n"
            "  why: found character '\\t' that cannot start any token (line 3)"
        ),
    ),
    "the same key twice": (
        GLOBAL + "limits: {}\nlimits: {}",
        "x.yaml cannot be read as YAML\n  where: DIR/recipe/x.yaml\n  why: found duplicate key limits (line 3)",
    ),
    "a header of two words": (
        "# @package a b\nlimits: {}",
        "x.yaml cannot be read as YAML\n  where: DIR/recipe/x.yaml\n  why: Too many components in '@package a b'",
    ),
    "brackets beyond counting": (
        "a: " + "[" * 5000,
        "x.yaml cannot be read as YAML\n  where: DIR/recipe/x.yaml\n  why: it is nested too deeply",
    ),
    "a list": (
        "- a",
        "x.yaml holds no mapping\n  where: DIR/recipe/x.yaml\n  fix: write lines of `name: value`",
    ),
}


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["toolkit-plan", *arguments])
    return run_verb("plan", PlanConfig, plan.run)


@pytest.mark.parametrize("kind", FILES)
def test_a_wrong_file_is_explained(monkeypatch, capsys, tmp_path, kind):
    text, said = FILES[kind]
    cli.write(tmp_path, {"recipe/x.yaml": f"{text}\n"})
    code = call(monkeypatch, "--config-dir", str(tmp_path), "+recipe=x")
    printed = capsys.readouterr()
    assert printed.err == f"error: {said}\n".replace("DIR", str(tmp_path))
    assert (code, printed.out) == (2, "")


def test_a_file_that_is_no_text(monkeypatch, capsys, tmp_path):
    cli.write(tmp_path, {"recipe/y.yaml": "{}"})
    (tmp_path / "recipe/x.yaml").write_bytes(b"\xff\xfe\x00")
    assert call(monkeypatch, "--config-dir", str(tmp_path), "+recipe=x") == 2
    assert cli.first_line(capsys.readouterr().err) == "error: x.yaml cannot be read as YAML"


@pytest.mark.parametrize(
    "make", [lambda path: path.symlink_to(path.name), lambda path: path.mkdir()], ids=["loop", "dir"]
)
def test_what_is_no_file_is_no_recipe(monkeypatch, capsys, tmp_path, make):
    (tmp_path / "recipe").mkdir()
    make(tmp_path / "recipe/x.yaml")
    assert call(monkeypatch, "--config-dir", str(tmp_path), "+recipe=x") == 2
    assert cli.first_line(capsys.readouterr().err) == "error: there is no recipe named 'x'"


def test_files_that_are_not_asked_for_are_not_judged(monkeypatch, capsys, tmp_path):
    cli.write(
        tmp_path,
        {
            "recipe/x.yaml": GLOBAL,
            "recipe/bad.yaml": "hydra: {}",
            "app/config.yaml": "_target_: x",
            "deep/a/b.yaml": "[",
        },
    )
    assert call(monkeypatch, "--config-dir", str(tmp_path), "+recipe=x", "output=json") == 0
    assert capsys.readouterr().err == ""


def test_a_huge_number_of_aliases_is_refused_before_it_costs_memory(monkeypatch, capsys, tmp_path):
    growing = "a0: &a0 [0, 0]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    cli.write(tmp_path, {"recipe/x.yaml": growing, "recipe/y.yaml": "a: &a {b: *a}\n"})
    assert call(monkeypatch, "--config-dir", str(tmp_path), "+recipe=x") == 2
    assert "more than 100,000 values once its aliases are written out" in capsys.readouterr().err
    assert call(monkeypatch, "--config-dir", str(tmp_path), "+recipe=y") == 2
    assert "an alias stands inside what it names" in capsys.readouterr().err
