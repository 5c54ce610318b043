"""A real model through vLLM with an FP8 cache, against transformers with the same rounding of keys and values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("vllm")

import torch

from toolkit.checkpoint.sources import fetch
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind

ROOT = Path(__file__).parents[2]
LARGEST_DIFFERENCE = 0.3
"""Nats, for a token that both chose; both compute in float32.

No bound of rounding errors is as wide. But a key that lies next to a boundary between two FP8 values may be rounded to
either, and all later layers see the difference: moving keys and values by a millionth of themselves moves a logprob of
this model by up to 0.07 in E4M3, by 2^-11 (float16) up to 0.23. In E5M2 it is 0.7, so that format is not compared here.
"""
DTYPE, FORM = "fp8_e4m3", torch.float8_e4m3fn

CAPABLE = torch.cpu._is_avx512_supported() or torch.cpu._is_amx_tile_supported()
ROUTE = "volta_cpu_write (C++)" if CAPABLE else "volta_cpu_fp8 (torch)"


@pytest.fixture(scope="module")
def folder():
    values = yaml.safe_load((ROOT / "conf" / "checkpoint" / "smollm2.yaml").read_text())
    source = values["source"]
    kind = SourceKind[source.pop("kind")]
    return fetch(CheckpointConfig(values["name"], CheckpointSource(kind, **source), values["declared"])).root


@pytest.fixture(scope="module")
def tokenizer(folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def prompts(tokenizer):
    """A question whose answer is no near tie, and a text of several chunks and blocks."""
    chat = [{"role": "user", "content": "What is the capital of France? Answer in English."}]
    question = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"]
    text = "".join(f"The square of {n} is {n * n}. " for n in range(2, 40))
    return [question, tokenizer(text + "The square of 40 is").input_ids]


def expected(folder, tokens):
    """Greedy tokens and their logprobs from transformers, keys and values rounded to FP8 as they enter the cache."""
    from transformers import AutoModelForCausalLM, DynamicCache

    class Rounding(DynamicCache):
        def update(self, key_states, value_states, *rest, **extra):
            rounded = (states.to(FORM).float() for states in (key_states, value_states))
            return super().update(*rounded, *rest, **extra)

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    output = model.generate(
        torch.tensor([tokens]),
        past_key_values=Rounding(),
        max_new_tokens=12,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
    )
    chosen = output.sequences[0, len(tokens) :].tolist()
    scores = [torch.log_softmax(logits[0], -1)[token] for logits, token in zip(output.logits, chosen, strict=True)]
    return chosen, [float(score) for score in scores]


def generated(folder, prompts, target):
    program = str(Path(__file__).with_name("generate.py"))
    command = [sys.executable, program, str(folder), DTYPE, json.dumps(prompts), str(target)]
    env = os.environ | {"VLLM_HOST_IP": "127.0.0.1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=540)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Attention over the {DTYPE} cache: {ROUTE}." in done.stdout + done.stderr
    return json.loads(target.read_text())


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_serves_a_real_model(folder, tokenizer, prompts, tmp_path):
    first, second = generated(folder, prompts, tmp_path / "rounds.json")
    assert "Paris" in tokenizer.decode(first[0]["tokens"])
    assert [answer["tokens"] for answer in first] == [answer["tokens"] for answer in second]
    assert second[1]["cached"] >= 256, "the second round reads its prefix from the cache"
    for answer, tokens in zip(first, prompts, strict=True):
        chosen, logprobs = expected(folder, tokens)
        assert answer["tokens"] == chosen
        assert answer["logprobs"] == pytest.approx(logprobs, abs=LARGEST_DIFFERENCE)
