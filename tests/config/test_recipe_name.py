"""A recipe's name says what the recipe sets."""

import re
from pathlib import Path

import pytest
from composing import compose
from hypothesis import given
from hypothesis import strategies as st

from toolkit.config.recipe_name import ENGINES, KV, SPECULATIVE, RecipeName
from toolkit.config.search_path import shipped_conf

RECIPES = sorted(path.stem for path in (shipped_conf() / "recipe").glob("*.yaml"))
KEYWORD = re.compile(f"{'|'.join([*ENGINES, *KV, *SPECULATIVE])}|dcp[1-9][0-9]*")
words = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
plain_words = words.filter(lambda word: not KEYWORD.fullmatch(word))


def maybe(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


names = st.builds(
    RecipeName,
    checkpoint=st.lists(words, max_size=3).flatmap(
        lambda first: plain_words.map(lambda last: "_".join([*first, last])) | st.just("")
    ),
    engine=maybe(st.sampled_from(ENGINES)),
    dcp=maybe(st.integers(1, 64)),
    kv=maybe(st.sampled_from(sorted(KV.values()))),
    speculative=maybe(st.sampled_from(SPECULATIVE)),
)


@given(names)
def test_what_is_written_is_read_back(name):
    assert RecipeName.parse(name.format()) == name


@given(st.lists(words, min_size=1, max_size=6).map("_".join))
def test_what_is_read_is_written_back(text):
    assert RecipeName.parse(text).format() == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("dcp2_e4m3", RecipeName("", None, 2, "fp8_e4m3", None)),
        ("smollm2_cpu", RecipeName("smollm2", "cpu", None, None, None)),
        ("qwen38_27b_nvfp4_dflash2", RecipeName("qwen38_27b_nvfp4", None, None, None, "dflash2")),
        ("a_v100_dcp4_f16_mtp3", RecipeName("a", "v100", 4, "float16", "mtp3")),
        ("dcp0", RecipeName("dcp0")),
        ("dcp02", RecipeName("dcp02")),
        ("dcp\u00b2", RecipeName("dcp\u00b2")),
        ("e4m3_model", RecipeName("e4m3_model")),
        ("e4m3_cpu", RecipeName("e4m3", "cpu")),
    ],
)
def test_names(text, name):
    assert RecipeName.parse(text) == name


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_shipped_recipe_sets_what_its_name_says(recipe):
    said, composed = RecipeName.parse(recipe), compose(f"+recipe={recipe}")
    config, origins = composed.config, composed.origins

    def choice(key: str) -> str:
        return Path(origins[key]).stem

    assert said.format() == recipe
    assert said.checkpoint in ("", choice("checkpoint.name"))
    assert said.engine in (None, config.engine.name.value)
    assert said.dcp in (None, config.dcp.size)
    assert said.kv in (None, choice("kv.dtype"))
    assert said.speculative in (None, choice("speculative.method"))
    if said.checkpoint:  # a name that begins with the model says all of it: silence means off
        assert config.dcp.size == (said.dcp or 1)
        assert choice("speculative.method") == (said.speculative or "none")
