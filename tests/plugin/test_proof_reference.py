"""The proof's reference with an FP8 cache: its rounding, its attention, and what its bounds tell apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

from kernels.reference import fp8, kv_cache
from tests.gpu.serving import judge, smollm2
from tests.gpu.serving.checks import prompts
from tests.gpu.serving.fp8_cache import held
from tests.gpu.serving.reference import FLOAT16, CachedAttention, Reference
from toolkit.checkpoint.sources import fetch
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind

ROOT = Path(__file__).parents[2]
ORACLES = {"fp8_e4m3": fp8.E4M3, "fp8_e5m2": fp8.E5M2}
"""By search among the values of all codes, in float64."""
SCALES = (1.0, 0.0123, 0.4999999, 3.7, 2.0**-14, 1e-4, 777.0)


def of_oracle(values: Tensor, kv: str, scale: float) -> Tensor:
    return kv_cache.decode(kv_cache.encode(values.half(), scale, ORACLES[kv]), scale, ORACLES[kv])


@pytest.fixture(params=sorted(ORACLES))
def kv(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("scale", SCALES)
def test_every_half_comes_back_as_the_oracle_says(kv: str, scale: float) -> None:
    halves = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16)
    read = held(halves, kv, scale)
    assert read.dtype == torch.float16
    torch.testing.assert_close(read, of_oracle(halves, kv, scale), rtol=0, atol=0, equal_nan=True)


def test_float32_is_rounded_to_a_half_first_and_keeps_its_type(kv: str) -> None:
    between = torch.tensor([1.0625, 17.0, 240.0, 57344.0, 3.0e-5]) * (1 + 2.0**-13)
    values = torch.cat((between, -between, torch.randn(4096)))
    assert held(values, kv).dtype == torch.float32
    assert torch.equal(held(values, kv), of_oracle(values, kv, 1.0).float())
    assert torch.equal(held(held(values, kv), kv), held(values, kv))


def attention(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
    """[batch, heads, tokens, dim] to [batch, tokens, heads, dim], one query after the other, in float64."""
    output = torch.empty(query.shape, dtype=torch.float64).transpose(1, 2)
    groups = query.shape[1] // key.shape[1]
    for batch, head, row in torch.cartesian_prod(*(torch.arange(size) for size in query.shape[:3])).tolist():
        keys, values = (part[batch, head // groups, : row + 1].double() for part in (key, value))
        weights = (keys @ query[batch, head, row].double() * scaling).softmax(0)
        output[batch, row, head] = weights @ values
    return output


def test_attention_reads_what_the_cache_holds(kv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also numbers beyond the format, below its smallest, and next to the boundary between two codes."""
    monkeypatch.setattr("tests.gpu.serving.reference.ROWS", 7)
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 23, 16, generator=draw) for heads in (6, 2, 2))
    key[0, :, 3], value[0, :, 5], value[0, :, 9] = 1.0625, 60000.0, 1e-5
    output, _ = CachedAttention(kv)(None, query, key, value, None, scaling=0.25)
    expected = attention(query, *(of_oracle(part, kv, 1.0) for part in (key, value)), 0.25)
    torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(output.double(), attention(query, key, value, 0.25), rtol=1e-2)


def test_noise_is_float16s_for_its_seed_and_only_meanwhile() -> None:
    key = torch.randn(1, 1, 64, 32)
    layer = CachedAttention("float16")
    with layer.noise(3, "cpu"):
        first = layer._read(key)
    with layer.noise(3, "cpu"):
        again = layer._read(key)
    moved = ((first - key) / key).abs()
    assert torch.equal(first, again)
    assert FLOAT16 * 0.9 < moved.max() < FLOAT16 * 1.01
    assert torch.equal(layer._read(key), key)


def truncated(part: Tensor, kv: str) -> Tensor:
    """Towards zero, as a cache write of vLLM's for CPUs does."""
    table = ORACLES[kv].magnitudes
    below = torch.searchsorted(table, part.double().abs().contiguous(), right=True) - 1
    return (table[below] * part.sign()).to(part.dtype)


def own_prompt_unrounded(part: Tensor, kv: str) -> Tensor:
    return torch.cat((part[:, :, :20], held(part[:, :, 20:], kv)), 2)


FAULTS: dict[str, Callable[[Tensor, str], Tensor]] = {
    "nothing is rounded": lambda part, kv: part,
    "rounded towards zero": truncated,
    "the other format": lambda part, kv: held(part, next(each for each in ORACLES if each != kv)),
    "written with a scale, read with another": lambda part, kv: held(part, kv) * 1.1,
    "a prompt attends to its own unrounded keys": own_prompt_unrounded,
}
SHAPE: dict[str, Any] = {
    "vocab_size": 4000,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "initializer_range": 0.07,
}


class Float16Engine:
    """The model in float16, whose attention reads what `read` makes of keys and values."""

    def __init__(self, folder: Path, read: Callable[[Tensor], Tensor]) -> None:
        def attend(_: Any, query: Tensor, key: Tensor, value: Tensor, *__: Any, scaling: float, **___: Any) -> Any:
            parts = (part.float() for part in (query, read(key), read(value)))
            causal = query.shape[2] > 1
            output = scaled_dot_product_attention(*parts, is_causal=causal, scale=scaling, enable_gqa=True)
            return output.to(query.dtype).transpose(1, 2), None

        AttentionInterface.register("float16_engine", attend)
        self._model = LlamaForCausalLM.from_pretrained(
            folder, dtype=torch.float16, attn_implementation="float16_engine"
        ).eval()

    @torch.no_grad()
    def complete(self, asked: list[list[int]], tokens: int) -> list[list[int]]:
        """The answers to prompts of one length."""
        new, cache, answers = torch.tensor(asked), None, []
        for _ in range(tokens):
            seen = self._model(new, past_key_values=cache, use_cache=True, logits_to_keep=1)
            new, cache = seen.logits[:, 0].argmax(-1, keepdim=True), seen.past_key_values
            answers.append(new)
        return list(torch.cat(answers, 1).tolist())


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    LlamaForCausalLM(LlamaConfig(**SHAPE)).half().save_pretrained(folder / "llama")
    return folder


def judged(models: Path, kv: str, read: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    asked = prompts(1, 40, 40, 40, 40)
    answers = zip(asked, Float16Engine(models / "llama", read).complete(asked, 24), strict=True)
    return dict(judge.judged(SimpleNamespace(family="llama", kv=kv, adapter=""), list(answers), models))


def test_an_engine_in_float16_with_that_cache_passes(models: Path, kv: str) -> None:
    found = judged(models, kv, lambda part: held(part, kv))
    assert "fault" not in found
    assert found["float16_noise"]["mean_shortfall_nats"] > 0


@pytest.mark.parametrize(("kv", "fault"), [*zip([*ORACLES] * len(FAULTS), FAULTS, strict=False)])
def test_an_engine_whose_cache_errs_does_not(models: Path, kv: str, fault: str) -> None:
    found = judged(models, kv, lambda part: FAULTS[fault](part, kv))
    assert "mean shortfall in nats" in found["fault"]


def test_what_the_cpu_engine_answered_with_its_cache_passes() -> None:
    """SmolLM2's real weights, whose noise is small enough for the bounds of float16."""
    values = yaml.safe_load((ROOT / "conf/checkpoint/smollm2.yaml").read_text(encoding="utf-8"))
    source = CheckpointSource(SourceKind[values["source"].pop("kind")], **values["source"])
    folder = fetch(CheckpointConfig(values["name"], source, values["declared"])).root
    reference, known = Reference(folder, "fp8_e4m3"), smollm2.recorded("fp8_e4m3")
    asked = [(answer["prompt_token_ids"], answer["token_ids"]) for answer in known]
    nats = [short for prompt, tokens in asked for short in reference.shortfalls(prompt, tokens)]
    assert "fault" not in judge.verdict(nats, best=judge.BEST, mean=judge.MEAN)
