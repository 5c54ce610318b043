"""A random LoRA adapter, as PEFT stores one, and its sum with a model's weights."""

import json

import torch
from safetensors.torch import load_file, save_file

RANK, ALPHA = 8, 16
TARGETS = ("q_proj", "v_proj", "down_proj")
PREFIX = "base_model.model."
SPREAD = 0.02
"""Standard deviation of both factors: enough to change most of the answers."""


def make_adapter(folder, base, seed=3):
    """An adapter for the safetensors checkpoint `base`, of rank RANK on the modules TARGETS."""
    torch.manual_seed(seed)
    folder.mkdir(parents=True)
    tensors = {}
    for name, weight in sorted(load_file(base / "model.safetensors").items()):
        module = name.removesuffix(".weight")
        if module.endswith(TARGETS):
            rows, columns = weight.shape
            tensors[f"{PREFIX}{module}.lora_A.weight"] = torch.randn(RANK, columns) * SPREAD
            tensors[f"{PREFIX}{module}.lora_B.weight"] = torch.randn(rows, RANK) * SPREAD
    save_file({name: value.to(torch.float16) for name, value in tensors.items()}, folder / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": ALPHA,
        "target_modules": list(TARGETS),
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")


@torch.no_grad()
def merge(model, folder):
    """Add the adapter to the model's weights, in the model's precision."""
    tensors = load_file(folder / "adapter_model.safetensors")
    modules = dict(model.named_modules())
    for name, down in tensors.items():
        if ".lora_A." in name:
            weight = modules[name.removeprefix(PREFIX).removesuffix(".lora_A.weight")].weight
            up = tensors[name.replace(".lora_A.", ".lora_B.")]
            weight += (ALPHA / RANK) * (up.to(weight) @ down.to(weight))
