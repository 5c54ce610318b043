"""Writes seeded random checkpoints, one a family: python -m tests.gpu.serving.models FOLDER [FAMILY...]."""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from tests.gpu.serving.families import FAMILIES
from toolkit.checkpoint.byte_tokenizer import tokenizer_json, tokenizer_settings

SPREAD = 0.05
"""Standard deviation of the weights: with transformers' 0.02 the choices of a random model are near ties."""


def make(folder, family, seed=0):
    """One checkpoint in float16; returns its folder."""
    kind, values = FAMILIES[family]
    config = AutoConfig.for_model(kind, **values)
    for part in (config, getattr(config, "text_config", None)):
        if part is not None:
            part.initializer_range = SPREAD
            part.dtype = torch.float16
    torch.manual_seed(seed)
    auto = AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
    model = auto.from_config(config, dtype=torch.float32)
    where = Path(folder) / family
    model.to(torch.float16).save_pretrained(where)
    size = getattr(config, "text_config", config).vocab_size
    (where / "tokenizer.json").write_text(json.dumps(tokenizer_json(size)), encoding="utf-8")
    (where / "tokenizer_config.json").write_text(json.dumps(tokenizer_settings(2048)), encoding="utf-8")
    return where


if __name__ == "__main__":
    for name in sys.argv[2:] or FAMILIES:
        print(make(sys.argv[1], name), flush=True)
