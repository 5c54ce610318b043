"""The weight loader of a folder with scale shards: vLLM's default one, which is not shown the scales.

Models that load through vLLM's AutoWeightsLoader refuse a checkpoint with a tensor that no parameter is named after
(vLLM 0.32, model_executor/models/utils.py), and the layers of an unquantized checkpoint have no parameter for scales.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from vllm.config.load import LoadConfig
from vllm.model_executor.model_loader import get_model_loader, register_model_loader
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

from toolkit.plugin.scales import read_scales

FORMAT = "volta_view"
REPLACED = "auto"
"""vLLM's name of the loader that ours stands in for; any other was asked for, and is left."""


class ViewLoader(DefaultModelLoader):
    """The default loader without the tensors of scale shards, which `scales.set_scales` brings to their layers."""

    def __init__(self, load_config: LoadConfig) -> None:
        super().__init__(dataclasses.replace(load_config, load_format=REPLACED))

    def get_all_weights(self, model_config: Any, model: nn.Module) -> Generator[tuple[str, Tensor], None, None]:
        """Upstream's weights, by name."""
        scales = read_scales(Path(model_config.model))
        weights = super().get_all_weights(model_config, model)
        return ((name, tensor) for name, tensor in weights if name not in scales)


def use_view_loader(load_config: LoadConfig) -> None:
    """Let this process load with ViewLoader, where vLLM would choose its default loader."""
    if load_config.load_format != REPLACED:
        return
    try:
        get_model_loader(dataclasses.replace(load_config, load_format=FORMAT))
    except ValueError:
        register_model_loader(FORMAT)(ViewLoader)
    load_config.load_format = FORMAT
