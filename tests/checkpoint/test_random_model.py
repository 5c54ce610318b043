"""The model drawn from a seed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.checkpoint.byte_tokenizer import SMALLEST, SPECIAL, byte_letters, tokenizer_json
from toolkit.checkpoint.differences import Difference, declared_differences
from toolkit.checkpoint.sources import fetch, locate
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.errors import ConfigurationError


def config(seed: int = 0, **declared: Any) -> CheckpointConfig:
    return CheckpointConfig("tiny", CheckpointSource(SourceKind.random, seed=seed), declared)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    facts = fetch(config(), tmp_path_factory.mktemp("cache"))
    assert facts.root is not None
    return facts.root


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_facts(tmp_path: Path) -> None:
    declared = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000}
    before = locate(config(**declared), tmp_path)
    assert not before.present
    assert before.missing == "the random model is not drawn yet; serving draws it in a moment"
    facts = fetch(config(**declared), tmp_path)
    assert facts.config == before.config  # all of it is known before
    assert declared_differences(facts, declared) == ()
    assert facts.tensors["model.layers.1.self_attn.k_proj.weight"].shape == (128, 256)
    assert facts.tensors["model.embed_tokens.weight"].shape == (1000, 256)
    assert locate(config(**declared), tmp_path) == facts


def test_same_seed_same_bytes(folder: Path, tmp_path: Path) -> None:
    again, other = fetch(config(), tmp_path), fetch(config(seed=1), tmp_path)
    assert again.root is not None
    assert other.root is not None
    assert again.root != other.root
    assert digests(again.root) == digests(folder)
    different = {name for name, digest in digests(other.root).items() if digest != digests(folder)[name]}
    assert different == {"model.safetensors", ".manifest.json"}


def test_a_tensor_does_not_depend_on_the_others(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    two, three = (fetch(config(num_hidden_layers=layers), tmp_path).root for layers in (2, 3))
    assert two is not None
    assert three is not None
    small, large = load_file(two / "model.safetensors"), load_file(three / "model.safetensors")
    assert small.keys() < large.keys()
    assert all((small[name] == large[name]).all() for name in small)


def test_it_writes_varied_text(folder: Path, tokenizer: Any) -> None:
    """A model that repeats one token would be taken for a broken engine."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for question in ("What is the capital of France?", "Hello", "Say yes.", "ok", "Write a story about a dog."):
        chat = [{"role": "user", "content": question}]
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        output = model.generate(**ids, max_new_tokens=24, min_new_tokens=24, do_sample=False)
        tokens = output[0][ids["input_ids"].shape[1] :].tolist()
        assert len(set(tokens)) >= 8
        assert len(tokenizer.decode(tokens, skip_special_tokens=True).strip()) >= 8


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=40))
def test_any_text_comes_back(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text).input_ids
    assert tokenizer.decode(ids) == text
    if not any(special in text for special in SPECIAL):
        assert len(ids) == len(text.encode())


def test_special_tokens(tokenizer: Any) -> None:
    assert tokenizer("<|im_start|>a<|im_end|>").input_ids[::2] == [1, 2]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 0)
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("size", [SMALLEST, SMALLEST + 1, 512, 5000])
def test_every_token_has_a_place(size: int) -> None:
    vocabulary = tokenizer_json(size)["model"]["vocab"]
    assert list(vocabulary.values()) == list(range(size))


def test_letters_are_those_of_gpt2() -> None:
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    assert dict(enumerate(byte_letters())) == bytes_to_unicode()


@pytest.mark.parametrize(
    ("declared", "what"),
    [
        ({"model_type": "qwen3"}, "model_type must be 'llama'"),
        ({"architectures": ["X"]}, "architectures must be ['LlamaForCausalLM']"),
        ({"hidden_size": 0}, "hidden_size is 0, a positive whole number is needed"),
        ({"hidden_size": "128"}, "hidden_size is '128', a positive whole number is needed"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True, a positive whole number is needed"),
        ({"vocab_size": 100}, "vocab_size is 100, the byte-level tokenizer needs at least 259"),
        ({"num_attention_heads": 3, "num_key_value_heads": 2},
         "num_key_value_heads is 2, which does not divide num_attention_heads 3"),
        ({"head_dim": 63}, "head_dim is 63, an even number is needed"),
        ({"rms_norm_eps": -1}, "rms_norm_eps is -1, a positive number is needed"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes', true or false is needed"),
        ({"quantization_config": {}}, "quantization_config is not known to the random model"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn(declared: dict, what: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        locate(config(**declared), tmp_path)
    assert raised.value.what == f"checkpoint.declared.{what}"
    assert list(tmp_path.iterdir()) == []


def test_the_recipes_own(tmp_path: Path) -> None:
    import yaml

    values = yaml.safe_load((Path(__file__).parents[2] / "conf" / "checkpoint" / "tiny_random.yaml").read_text())
    facts = fetch(config(**values["declared"]), tmp_path)
    assert declared_differences(facts, values["declared"]) == ()


def test_differences(folder: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    changed.mkdir()
    for path in folder.iterdir():
        (changed / path.name).write_bytes(path.read_bytes())
    values = json.loads((folder / "config.json").read_text())
    nested = {"dtype": "float16", "rope_parameters": {"rope_theta": 1.0}, "hidden_size": 128}
    del values["torch_dtype"]
    (changed / "config.json").write_text(json.dumps(values | nested))
    facts = locate(CheckpointConfig("m", CheckpointSource(SourceKind.local, path=str(changed))))
    declared = {
        "hidden_size": 256,
        "vocab_size": 512,
        "torch_dtype": "float16",  # the other name of dtype
        "rope_parameters": {"rope_theta": 2.0, "rope_type": "default"},
        "sliding_window": 4096,
    }
    found = declared_differences(facts, declared)
    assert found == (
        Difference("hidden_size", 256, 128),
        Difference("rope_parameters.rope_theta", 2.0, 1.0),
        Difference("rope_parameters.rope_type", "default", None),
        Difference("sliding_window", 4096, None),
    )
    assert [str(item) for item in found][::3] == [
        "hidden_size is declared as 256, config.json has 128",
        "sliding_window is declared as 4096, config.json has absent",
    ]
