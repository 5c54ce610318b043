"""Where each value came from, checked against the place itself."""

from enum import Enum
from pathlib import Path

import cli
import pytest
from composing import SCHEMAS, at, compose
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from toolkit.config.provenance import COMMAND_LINE, DEFAULT
from toolkit.config.reference import options
from toolkit.config.search_path import shipped_conf
from toolkit.config.strict import known_keys
from toolkit.errors import ConfigurationError

RECIPES = sorted(path.stem for path in (shipped_conf() / "recipe").glob("*.yaml"))
GLOBAL = "# @package _global_\n"


def plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def value_in(file: Path, key: str) -> object:
    """What a file itself says of a key: whole where it is placed at the root, elsewhere without the group."""
    text = file.read_text(encoding="utf-8")
    inner = key if text.startswith(GLOBAL) else key.partition(".")[2]
    return at(OmegaConf.to_container(OmegaConf.create(OmegaConf.load(file))), inner)


def assert_origins_hold(composed, verb: str = "plan") -> None:
    defaults = {option.key: option.default for option in options(SCHEMAS[verb])}
    assert set(composed.origins) == set(known_keys(SCHEMAS[verb]))
    for key, origin in composed.origins.items():
        value = at(composed.values, key)
        if origin == DEFAULT:
            assert value == plain(defaults[key]), key
        elif origin.startswith(COMMAND_LINE):
            assert key in origin or key.rpartition(".")[0] in origin, key
        else:
            assert value_in(Path(origin), key) == value, (key, origin)


@pytest.mark.parametrize("verb", SCHEMAS)
@pytest.mark.parametrize("recipe", ["", *RECIPES])
def test_each_value_stands_in_its_origin(recipe, verb):
    composed = compose(*([f"+recipe={recipe}"] if recipe else []), verb=verb)
    assert composed.recipe == recipe
    assert_origins_hold(composed, verb)


def test_the_recipe_wins_over_the_group_and_the_command_line_over_both():
    conf = shipped_conf()
    group, recipe, line = (
        compose(*arguments)
        for arguments in ([], ["+recipe=smollm2_cpu"], ["+recipe=smollm2_cpu", "limits.max_model_len=99"])
    )
    assert group.origins["limits.max_model_len"] == str(conf / "limits/default.yaml")
    assert recipe.origins["limits.max_model_len"] == str(conf / "recipe/smollm2_cpu.yaml")
    assert line.origins["limits.max_model_len"] == "command line: limits.max_model_len=99"
    assert line.config.limits.max_model_len == 99


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("limits.max_num_seqs=3", ["limits.max_num_seqs"]),
        ("++limits.max_num_seqs=3", ["limits.max_num_seqs"]),
        ("limits={max_num_seqs: 3, block_size: 16}", ["limits.block_size", "limits.max_num_seqs"]),
        ("+engine.environment.OMP_NUM_THREADS='2'", ["engine.environment"]),
        ("+engine.environment={A: b}", ["engine.environment"]),
        ("engine.inherit=[PATH]", ["engine.inherit"]),
        ("checkpoint.source={path: /x}", ["checkpoint.source.path"]),
        ("+checkpoint.declared.rope.base=1", ["checkpoint.declared"]),
        ("server.api_key_file=null", ["server.api_key_file"]),
        ("server.host='a=b'", ["server.host"]),
        ("limits.max_num_seqs=${limits.tensor_parallel}", ["limits.max_num_seqs"]),
        ("limits={}", []),
        ("kv=fp8_e4m3", []),
        ("dcp=2", []),
        ("+recipe=dcp2_e4m3", []),
        ("~kv", []),
        ("hydra.verbose=true", []),
        ("output=json", ["output"]),
    ],
)
def test_what_an_override_is_the_origin_of(override, changed):
    composed = compose(override)
    named = sorted(key for key, origin in composed.origins.items() if origin.startswith(COMMAND_LINE))
    assert named == sorted(changed)
    typed = override if override != "dcp=2" else "dcp='2'"
    assert {composed.origins[key] for key in named} <= {f"command line: {typed}"}
    assert_origins_hold(composed)


def test_the_last_of_two_overrides_is_the_origin():
    composed = compose("limits.max_num_seqs=3", "limits={max_num_seqs: 4}")
    assert composed.config.limits.max_num_seqs == 4
    assert composed.origins["limits.max_num_seqs"] == "command line: limits={max_num_seqs: 4}"


def test_a_group_chosen_on_the_command_line_wins_over_the_recipes_choice():
    composed = compose("+recipe=smollm2_cpu", "kv=fp8_e5m2")
    assert composed.origins["kv.dtype"] == str(shipped_conf() / "kv/fp8_e5m2.yaml")


def test_a_group_taken_away_leaves_the_schemas_default():
    composed = compose("kv=fp8_e4m3", "~limits")
    assert composed.origins["limits.max_model_len"] == DEFAULT
    assert composed.config.limits.max_model_len == 4096


def test_a_users_recipe_may_build_on_a_shipped_one(tmp_path):
    folder = cli.write(
        tmp_path,
        {
            "recipe/mine.yaml": f"{GLOBAL}defaults: [smollm2_cpu, _self_]\nlimits: {{max_num_seqs: 2}}\nengine: {{}}\n",
            "recipe/below.yaml": f"{GLOBAL}defaults: [_self_, smollm2_cpu]\nlimits: {{max_model_len: 5}}\n",
            "recipe/kv.yaml": f"{GLOBAL}defaults:\n  - smollm2_cpu\n  - override /kv: mine\n",
            "kv/mine.yaml": "dtype: fp8_e5m2\n",
        },
    )
    shipped = str(shipped_conf() / "recipe/smollm2_cpu.yaml")
    mine, below, kv = (compose("--config-dir", str(folder), f"+recipe={name}") for name in ("mine", "below", "kv"))
    assert mine.recipe == "mine"
    assert mine.origins["limits.max_num_seqs"] == str(folder / "recipe/mine.yaml")
    assert mine.origins["limits.max_model_len"] == shipped
    assert mine.origins["engine.dtype"] == str(shipped_conf() / "engine/cpu.yaml")
    assert (below.origins["limits.max_model_len"], below.config.limits.max_model_len) == (shipped, 2048)
    assert (kv.origins["kv.dtype"], kv.config.kv.dtype) == (str(folder / "kv/mine.yaml"), "fp8_e5m2")
    for composed in (mine, below, kv):
        assert_origins_hold(composed)


def test_a_file_placed_elsewhere_by_its_header_or_its_entry(tmp_path):
    folder = cli.write(
        tmp_path,
        {
            "recipe/x.yaml": f"{GLOBAL}defaults:\n  - /small@limits: tiny\n  - /env/threads\n  - _self_\n",
            "small/tiny.yaml": "max_num_seqs: 1\n",
            "env/threads.yaml": "# @package engine.environment\nOMP_NUM_THREADS: '2'\n",
        },
    )
    composed = compose("--config-dir", str(folder), "+recipe=x")
    assert composed.config.engine.environment == {"OMP_NUM_THREADS": "2"}
    assert composed.origins["limits.max_num_seqs"] == str(folder / "small/tiny.yaml")
    assert composed.origins["engine.environment"] == str(folder / "env/threads.yaml")


def test_a_users_file_that_the_toolkits_own_would_hide_is_refused(tmp_path):
    folder = cli.write(tmp_path, {"recipe/smollm2_cpu.yaml": f"{GLOBAL}limits: {{max_num_seqs: 1}}\n"})
    with pytest.raises(ConfigurationError, match=r"^two files are named recipe/smollm2_cpu\.yaml\n"):
        compose("--config-dir", str(folder), "+recipe=smollm2_cpu")


VALUES = {
    "limits.max_num_seqs": st.integers(1, 64),
    "limits.max_model_len": st.integers(1, 8192),
    "limits.prefix_caching": st.booleans(),
    "server.port": st.integers(1024, 65535),
    "kv.dtype": st.sampled_from(["float16", "fp8_e4m3", "fp8_e5m2"]),
    "engine.dtype": st.sampled_from(["float16", "float32"]),
}


@st.composite
def layers(draw):
    """Values for some keys in a recipe of the user's, and for some on the command line."""
    return [
        {key: draw(VALUES[key]) for key in draw(st.sets(st.sampled_from(sorted(VALUES)), max_size=4))} for _ in "ab"
    ]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layers=layers())
def test_any_mixture_of_layers(tmp_path, layers):
    recipe, line = layers
    nested: dict = {}
    for key, value in recipe.items():
        group, name = key.split(".")
        nested.setdefault(group, {})[name] = value
    folder = cli.write(tmp_path, {"recipe/drawn.yaml": GLOBAL + (OmegaConf.to_yaml(nested) if nested else "{}\n")})
    typed = {key: f"{key}={str(value).lower()}" for key, value in line.items()}
    composed = compose("--config-dir", str(folder), "+recipe=drawn", *typed.values())
    for key in VALUES:
        if key in line:
            expected = line[key], f"command line: {typed[key]}"
        elif key in recipe:
            expected = recipe[key], str(folder / "recipe/drawn.yaml")
        else:
            continue
        assert (at(composed.config, key), composed.origins[key]) == expected
    assert_origins_hold(composed)
