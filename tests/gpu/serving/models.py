"""Writes seeded random checkpoints: python -m tests.gpu.serving.models FOLDER [NAME...]; without names each family."""

import json
import re
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from tests.gpu.serving.adapter import make_adapter
from tests.gpu.serving.families import DRAFT_LAYERS, DRAFTS, FAMILIES
from toolkit.checkpoint.byte_tokenizer import CHAT_TEMPLATE, tokenizer_json, tokenizer_settings

SPREAD = 0.05
"""Standard deviation of the weights: with transformers' 0.02 the choices of a random model are near ties."""

LAYER = re.compile(r"model\.layers\.(\d+)\.")


def configuration(family):
    """The family's configuration, in float16 and with that spread."""
    kind, values = FAMILIES[family]
    config = AutoConfig.for_model(kind, **values)
    for part in (config, getattr(config, "text_config", None)):
        if part is not None:
            part.initializer_range = SPREAD
            part.dtype = torch.float16
    return config


def auto_class(config):
    """What transformers loads it with."""
    return AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM


def make(folder, name):
    """One checkpoint below the folder, if it is not there yet: a family, an adapter or a draft model."""
    where = Path(folder) / name
    if where.exists():
        return where
    if name in DRAFTS:
        target, layers = DRAFTS[name]
        make_draft(make(folder, target), where, layers)
    elif name.endswith("_lora"):
        make_adapter(where, make(folder, name.removesuffix("_lora")))
    else:
        make_family(where, name)
    return where


def make_family(where, family, seed=0):
    """A checkpoint in float16, tokenizer included."""
    config = configuration(family)
    torch.manual_seed(seed)
    auto_class(config).from_config(config, dtype=torch.float32).to(torch.float16).save_pretrained(where)
    if family in DRAFT_LAYERS:
        add_draft_head(where / "model.safetensors", *DRAFT_LAYERS[family])
    text = getattr(config, "text_config", config)
    settings = {**tokenizer_settings(text.max_position_embeddings), "chat_template": CHAT_TEMPLATE}
    (where / "tokenizer.json").write_text(json.dumps(tokenizer_json(text.vocab_size)), encoding="utf-8")
    (where / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def make_draft(target, where, layers):
    """A draft model: the target's first layers, so that it guesses some of its tokens."""
    where.mkdir()
    config = json.loads((target / "config.json").read_text())
    (where / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}), encoding="utf-8")
    tensors = load_file(target / "model.safetensors")
    kept = {name: value for name, value in tensors.items() if (at := LAYER.search(name)) is None or int(at[1]) < layers}
    save_file(kept, where / "model.safetensors", {"format": "pt"})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (where / name).write_bytes((target / name).read_bytes())


def add_draft_head(file, layer, hidden):
    """A next-token (MTP) head beside the model: a copy of its last layer and a random projection."""
    tensors = load_file(file)
    copied = {name.replace(layer, "mtp.layers.0."): value for name, value in tensors.items() if name.startswith(layer)}
    norms = ("mtp.norm", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden")
    drawn = {f"{name}.weight": torch.zeros(hidden, dtype=torch.float16) for name in norms}
    drawn["mtp.fc.weight"] = (torch.randn(hidden, 2 * hidden) * SPREAD).to(torch.float16)
    save_file({**tensors, **{name: value.clone() for name, value in copied.items()}, **drawn}, file, {"format": "pt"})


if __name__ == "__main__":
    for name in sys.argv[2:] or FAMILIES:
        print(make(sys.argv[1], name), flush=True)
