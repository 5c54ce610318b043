"""The worker of kv_scales.py: VoltaCpuWorker, recording attention outputs, last states and the bytes of the cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from toolkit.planning.attention_routes import UPSTREAM, VOLTA_CPU_FP8, VOLTA_CPU_WRITE
from toolkit.plugin.cpu_attention.cache import pages_of
from toolkit.plugin.layers import attention_layers
from toolkit.plugin.register import CPU_FP8_BACKEND, CPU_ROUNDED_BACKEND
from toolkit.plugin.scales import read_scales, set_scales
from toolkit.plugin.settings import settings_of
from toolkit.plugin.worker.cpu import VoltaCpuWorker

BACKENDS = {VOLTA_CPU_FP8: CPU_FP8_BACKEND, VOLTA_CPU_WRITE: CPU_ROUNDED_BACKEND}


class RecordingWorker(VoltaCpuWorker):
    """Records every step from `use_view` to `save_records`."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load, with the attention that is asked for, whatever this CPU would get."""
        route, backend = self.vllm_config.additional_config["route"], AttentionBackendEnum.CPU_ATTN
        backend.clear_override()
        if route != UPSTREAM:
            register_backend(backend, BACKENDS[route])
        super().load_model(*args, **kwargs)

    def compile_or_warm_up_model(self) -> Any:
        """Begin to record."""
        times = super().compile_or_warm_up_model()
        self.outputs: dict[str, list[Tensor]] = {}
        self.states: list[Tensor] = []
        self.codes: dict[str, Tensor] = {}
        self.layers = attention_layers(self.vllm_config)
        for name, layer in self.layers.items():
            self._watch(name, layer)
        self.model_runner.model.model.norm.register_forward_hook(
            lambda _, __, normed: self.states.append(normed[0].clone())
        )
        return times

    def use_view(self, folder: str, reports: str) -> None:
        """Take a view's scales as a worker that is started on it does, report them, and record from here on."""
        self.unused_scales = set_scales(self.layers, read_scales(Path(folder)))
        self._report(replace(settings_of(self.vllm_config), reports=reports), Path(reports))
        self.outputs.clear()
        self.states.clear()
        self.codes = {name: torch.zeros(2, 256, dtype=torch.int64) for name in self.layers}
        for layer in self.layers.values():
            layer.kv_cache.zero_()

    def count_codes(self, tokens: int) -> None:
        """Count the bytes that a sequence of `tokens` left in an FP8 cache, keys and values apart, and clear it."""
        for name, layer in self.layers.items():
            if layer.kv_cache.dtype != torch.uint8:
                return
            pages = pages_of(layer.kv_cache)
            blocks, heads, _, block_tokens, size = pages.shape
            for kind in (0, 1):
                counts = torch.bincount(pages[:, :, kind].reshape(-1), minlength=256)
                counts[0] -= heads * size * (blocks * block_tokens - tokens)  # never written
                if counts[0] < 0:
                    raise RuntimeError(f"{name} holds more than the {tokens} tokens that it was given")
                self.codes[name][kind] += counts
            layer.kv_cache.zero_()

    def save_records(self, path: str) -> None:
        """Write what was recorded."""
        joined = {name: torch.cat(steps) for name, steps in self.outputs.items()}
        codes = torch.stack([self.codes[name] for name in joined], 1)  # [keys and values, layers, 256]
        torch.save({"outputs": joined, "states": torch.cat(self.states), "codes": codes}, path)

    def _watch(self, name: str, layer: Any) -> None:
        forward = layer.impl.forward

        def recorded(*args: Any, **kwargs: Any) -> Any:
            answer = forward(*args, **kwargs)
            output = kwargs["output"] if "output" in kwargs else args[6]
            self.outputs.setdefault(name, []).append(output.reshape(len(output), -1).clone())
            return answer

        layer.impl.forward = recorded
