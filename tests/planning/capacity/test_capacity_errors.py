"""What no capacity can be given for, and what the error says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolkit.errors import ConfigurationError
from toolkit.planning.capacity import plan_capacity
from toolkit.planning.capacity.caches import CompressedCache, FullCache, SlidingCache, same_type
from toolkit.planning.capacity.grouping import group_layers
from toolkit.planning.geometry import read_geometry

Make = Callable[..., Any]
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 512,
}


def test_a_layer_whose_cache_is_not_known(deployment: Make) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan_capacity(deployment(), read_geometry(LLAMA | {"kv_lora_rank": 512, "layer_types": ["mamba"] * 2}), 2**30)
    assert caught.value.what == ("The KV capacity of this model is not known: layer type 'mamba', key 'kv_lora_rank'.")


def test_drafting_with_a_head_that_is_not_there(deployment: Make) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan_capacity(deployment(speculative="mtp3"), read_geometry(LLAMA), 2**30)
    assert caught.value.what == "This checkpoint has no next-token head to draft with."


@pytest.mark.parametrize("missing", ["draft_layers", "draft_kv_bytes_per_token"])
def test_a_draft_that_is_not_described(deployment: Make, missing: str) -> None:
    config = deployment(speculative="dflash2")
    setattr(config.speculative, missing, 0)
    with pytest.raises(ConfigurationError) as caught:
        plan_capacity(config, read_geometry(LLAMA), 2**30)
    assert caught.value.what == f"The draft model's KV cache is not described: speculative.{missing} is not set."


def test_heads_that_do_not_divide(deployment: Make) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan_capacity(deployment(limits={"tensor_parallel": 3}), read_geometry(LLAMA), 2**30)
    assert caught.value.what == "The model cannot be divided over 3 GPUs: attention heads (4) do not divide evenly."


def test_pages_that_cannot_be_made_equal() -> None:
    layers = {
        "main": FullCache(16, 1, 64, 64, "float16"),
        "window": SlidingCache(16, 1, 96, 96, "float16", window=64),
        "keys": CompressedCache(16, 1, 80, 0, "float16", tokens_per_state=4),
    }
    with pytest.raises(ConfigurationError) as caught:
        group_layers(layers)
    assert caught.value.what == (
        "The KV pages of this model cannot be made equal: layer keys has 640 bytes in a page that should have 6144."
    )


def test_a_model_that_fits_nothing_has_no_tokens(deployment: Make) -> None:
    capacity = plan_capacity(deployment(), read_geometry(LLAMA), 0)
    assert (capacity.blocks, capacity.tokens, capacity.concurrency) == (0, 0, 0.0)


def test_blocks_of_unequal_length_are_not_of_one_type() -> None:
    short, long = FullCache(16, 1, 64, 64, "float16"), FullCache(32, 1, 64, 64, "float16")
    assert same_type(short, short)
    assert not same_type(short, long)
