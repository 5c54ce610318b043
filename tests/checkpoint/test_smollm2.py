"""The real model: its file from the real package, converted, against transformers' own reading of the same file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.checkpoint.differences import declared_differences
from toolkit.checkpoint.gguf.convert import convert
from toolkit.checkpoint.kinds.package import PackageKind
from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.progress import Silent
from toolkit.checkpoint.store import Store
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind

CONF = Path(__file__).parents[2] / "conf" / "checkpoint" / "smollm2.yaml"
LAYERS = 30
HALF_UNIT = 2.0**-11
"""Largest relative rounding error of float16."""

PROMPTS = (
    "What is the capital of France?",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "The mitochondria is the powerhouse of the cell. Photosynthesis, on the other hand, takes place in",
    "In 1969 Neil Armstrong became the first person to walk on the Moon. 12 + 30 =",
    "Z\u00fcrich and \u6771\u4eac are cities. \U0001f600 Emoji too.",
    "Once upon a time there was a king who had three daughters, and the youngest of them",
)
STRINGS = (
    "",
    " ",
    "  two  spaces ",
    "\n\n\t tab",
    "\r\n",
    "a\u00a0b\u2003c\u200bd",
    "Hello, World!",
    "don't I'll we've",
    "1234567890 3.14 1,000",
    "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m",
    "e\u0301 and \u00e9",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7",
    "\x00\x01\x7f",
    "<|im_start|>user\nhi<|im_end|>",
    "<|endoftext|>",
    "<|im_start|",
    "< |im_end| >",
    "a<repo_name>b<empty_output>",
    "for (int i = 0; i < n; ++i) { x[i] += 1; }",
    "$\\frac{a}{b}$",
    "    indented\n        more",
    "\ufb01 ligature \u00bd",
    "x" * 300,
    "\ud7ff\ue000\ufffd\U0010ffff",
)
CHATS = (
    [{"role": "user", "content": "hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}],
    [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "<|im_end|>"},
    ],
)


@pytest.fixture(scope="module")
def config() -> CheckpointConfig:
    values = yaml.safe_load(CONF.read_text())
    source = values["source"]
    kind = SourceKind[source.pop("kind")]
    return CheckpointConfig(values["name"], CheckpointSource(kind, **source), values["declared"])


@pytest.fixture(scope="module")
def kind(config: CheckpointConfig) -> PackageKind:
    """In the user's own cache, so that the package is downloaded once and not once a run."""
    return PackageKind(config, Store.at(None))


@pytest.fixture(scope="module")
def gguf(kind: PackageKind) -> Path:
    return kind.gguf(Silent())


@pytest.fixture(scope="module")
def folder(gguf: Path, config: CheckpointConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smollm2")
    convert(gguf, folder, {}, Silent())
    return folder


@pytest.fixture(scope="module")
def reference(gguf: Path, folder: Path) -> Any:
    """transformers' reading of the GGUF file, in float32: what from_pretrained does with it, without accelerate.

    The converted folder only saves drawing initial weights: all of them are replaced.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32)
    tensors = load_gguf_checkpoint(str(gguf), return_tensors=True, model_to_load=model)["tensors"]
    told = model.load_state_dict(tensors, strict=False)
    assert (told.missing_keys, told.unexpected_keys) == (["lm_head.weight"], [])  # it is the embedding
    model.tie_weights()
    return model.eval()


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    """The converted model, computed in float32, so that only what was stored differs."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizers(gguf: Path, folder: Path) -> tuple[Any, Any]:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name), AutoTokenizer.from_pretrained(folder)


def test_facts(folder: Path, config: CheckpointConfig) -> None:
    facts = read_facts(folder, "smollm2")
    assert len(facts.tensors) == 2 + 9 * LAYERS
    assert {tensor.dtype for tensor in facts.tensors.values()} == {"F16"}
    assert facts.weight_bytes == 269_030_016
    assert declared_differences(facts, config.declared) == ()


def test_the_cached_conversion_is_this_converters(folder: Path, kind: PackageKind) -> None:
    """Fails where what is written changed and CONVERTER_VERSION was not raised."""
    cached = kind.get(Silent())
    for file in folder.iterdir():
        if file.name != "conversion.json":  # names the source
            assert file.read_bytes() == (cached / file.name).read_bytes(), file.name


def test_every_weight(reference: Any, model: Any) -> None:
    """Each weight is transformers' own, rounded to float16 once."""
    import torch

    expected, found = reference.state_dict(), model.state_dict()
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert torch.equal(found[name], values.to(torch.float16).to(torch.float32)), name


def test_rounding_is_stated(folder: Path, reference: Any, model: Any) -> None:
    expected, found = reference.state_dict(), model.state_dict()
    largest = max(float((found[name] - values).abs().max()) for name, values in expected.items())
    rounding = json.loads((folder / "conversion.json").read_text())["rounding"]
    assert rounding["max_absolute"] == largest
    assert rounding["max_relative"] <= HALF_UNIT


def logits(model: Any, ids: list[int]) -> Any:
    import torch

    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].double()


def test_logits(reference: Any, model: Any, tokenizers: tuple[Any, Any]) -> None:
    """The bound: every rounded weight moves its layer's output by HALF_UNIT of it at most, and the errors of the
    matrices that one token passes one after the other (4 a layer, and the output) at worst add up.
    """
    bound = (4 * LAYERS + 1) * HALF_UNIT
    positions = agreed = 0
    worst_absolute = worst_relative = 0.0
    for prompt in PROMPTS:
        ids = tokenizers[0](prompt).input_ids
        expected, found = logits(reference, ids), logits(model, ids)
        error = found - expected
        worst_absolute = max(worst_absolute, float(error.abs().max()))
        worst_relative = max(worst_relative, float((error.norm(dim=-1) / expected.norm(dim=-1)).max()))
        positions += len(ids)
        agreed += int((expected.argmax(-1) == found.argmax(-1)).sum())
    print(
        f"\nlogits of {positions} positions: max absolute error {worst_absolute:.4f}, "
        f"max relative error (norm) {worst_relative:.2e} (bound {bound:.2e}), argmax equal at {agreed}"
    )
    assert worst_relative <= bound
    assert agreed == positions


def test_an_answer(model: Any, tokenizers: tuple[Any, Any]) -> None:
    tokenizer = tokenizers[1]
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**ids, max_new_tokens=20, do_sample=False)[0][ids["input_ids"].shape[1] :]
    assert tokenizer.decode(output, skip_special_tokens=True) == "The capital of France is Paris."
    assert int(output[-1]) == tokenizer.eos_token_id  # from generation_config.json: it stops by itself


@pytest.mark.parametrize("text", STRINGS)
def test_tokens(tokenizers: tuple[Any, Any], text: str) -> None:
    expected, found = tokenizers
    for special in (True, False):
        ids = expected(text, add_special_tokens=special).input_ids
        assert found(text, add_special_tokens=special).input_ids == ids
    for skip in (True, False):
        assert found.decode(ids, skip_special_tokens=skip) == expected.decode(ids, skip_special_tokens=skip)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60))
def test_tokens_of_any_text(tokenizers: tuple[Any, Any], text: str) -> None:
    expected, found = tokenizers
    ids = expected(text).input_ids
    assert found(text).input_ids == ids
    assert found.decode(ids) == expected.decode(ids)


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("prompt", [True, False])
def test_chats(tokenizers: tuple[Any, Any], chat: list[dict[str, str]], prompt: bool) -> None:
    expected, found = (
        tokenizer.apply_chat_template(chat, add_generation_prompt=prompt, tokenize=False) for tokenizer in tokenizers
    )
    assert found == expected
    assert found.endswith("<|im_start|>assistant\n") is prompt


def test_special_tokens(tokenizers: tuple[Any, Any]) -> None:
    expected, found = tokenizers
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        assert getattr(found, name) == getattr(expected, name)
    assert len(found) == len(expected) == 49152
    assert found.get_vocab() == expected.get_vocab()
    assert {str(t) for t in found.added_tokens_decoder.values()} == {
        str(t) for t in expected.added_tokens_decoder.values()
    }
