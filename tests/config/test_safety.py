"""What makes a file more than values, apart from Hydra."""

from pathlib import Path

import pytest
import yaml

from toolkit.config.plain_yaml import MAX_NODES, expanded_size
from toolkit.config.safety import misshapen, reaches, values_only
from toolkit.errors import ConfigurationError


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("recipe/x", "hydra: {}"),
        ("recipe/x", "a: [{_target_: x}]"),
        ("recipe/x", "a: {b: {_target_: null}}"),
        ("recipe/x", "# @package hydra"),
        ("recipe/x", "#@package hydra"),
        ("recipe/x", "# @other y\n# @package _global_.hydra.job_logging"),
        ("recipe/x", "defaults: [/hydra/launcher/x]"),
        ("recipe/x", "defaults: [{override hydra/launcher: x}]"),
        ("recipe/x", "defaults: [{optional override /hydra/launcher: x}]"),
        ("recipe/x", "defaults: ['/theme@hydra']"),
        ("recipe/x", "defaults: [{'/theme@_global_Zhydra': x}]"),
        ("recipe/x", "defaults: [{'/theme@${kv}': x}]"),
        ("hydra/launcher/x", "{}"),
        ("a/hydra/x", "{}"),
    ],
)
def test_what_reaches_for_hydra_or_code(path, text):
    assert list(reaches(path, text, yaml.safe_load(text) or {}))


@pytest.mark.parametrize(
    "text",
    [
        "# @package _global_\ndefaults: [smollm2_cpu, {override /kv: fp8_e4m3}, _self_]\nlimits: {max_num_seqs: 3}",
        "# written for hydra, ask me@example.org\nlimits: {}",
        "recipe: {reason: the hydra has nine heads}",
        "checkpoint: {declared: {hydra: 9}}",
        "defaults: [hydra_like, {override /kv: hydra}]",
        "targets: [_target_]",
    ],
)
def test_what_does_not(text):
    assert list(reaches("recipe/x", text, yaml.safe_load(text))) == []


@pytest.mark.parametrize(
    ("defaults", "wrong"),
    [
        ([], []),
        (["a", {"override /kv": "x"}, {"/kv": None}, {"/kv": ["a", "b"]}], []),
        ("a", ["a"]),
        ({"a": "b"}, ["{'a': 'b'}"]),
        ([5], ["5"]),
        ([None], ["None"]),
        ([["a"]], ["['a']"]),
        ([{"/dcp": 2}], ["{'/dcp': 2}"]),
        ([{"/dcp": [2]}], ["{'/dcp': [2]}"]),
        ([{"a": "b", "c": "d"}], ["{'a': 'b', 'c': 'd'}"]),
        ([{}], ["{}"]),
    ],
)
def test_defaults_lists(defaults, wrong):
    assert list(misshapen(defaults)) == wrong


def nodes(text: str) -> object:
    return yaml.SafeLoader(text).get_single_node()


def test_sizes_with_aliases_written_out():
    assert expanded_size(nodes("a: 1")) == 3
    assert expanded_size(nodes("a: &x [1, 2]\nb: *x")) == 1 + 2 + 3 + 3
    growing = "a0: &a0 [0, 0]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    with pytest.raises(ValueError, match=f"more than {MAX_NODES:,} values"):
        expanded_size(nodes(growing))
    with pytest.raises(ValueError, match="an alias stands inside what it names"):
        expanded_size(nodes("a: &a [*a]"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("- a", "x.yaml holds no mapping"),
        ("text", "x.yaml holds no mapping"),
        ("3", "x.yaml holds no mapping"),
        ("defaults: [3]", "x.yaml has a defaults list that cannot be read: 3"),
        ("hydra: {}", "x.yaml may not set 'hydra'"),
        ("a: {_target_: os.system}", "x.yaml may not set '_target_'"),
    ],
)
def test_errors_name_the_file(text, what):
    with pytest.raises(ConfigurationError) as raised:
        values_only(text, Path("/their/recipe/x.yaml"), "recipe/x")
    assert (raised.value.what, raised.value.where) == (what, "/their/recipe/x.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system [x]",
        "a: !!python/name:os.system",
        "a: !!python/module:os",
        "a: !custom {}",
        "a: 1\na: 2",
        "a: [",
        "a:\n\t- b",
        "? [x]\n: 1",
    ],
)
def test_yaml_that_is_refused_by_the_reader(text):
    with pytest.raises(yaml.YAMLError):
        values_only(text, Path("x.yaml"), "recipe/x")


@pytest.mark.parametrize("text", ["", "# only a comment", "{}", "defaults: []"])
def test_an_empty_file_holds_nothing_wrong(text):
    assert dict(values_only(text, Path("x.yaml"), "recipe/x")) in ({}, {"defaults": []})


def test_a_merged_anchor_is_values():
    values = values_only("a: &a {x: 1}\nb:\n  <<: *a\n  y: 2", Path("x.yaml"), "recipe/x")
    assert values == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}
