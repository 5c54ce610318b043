"""The worker of kv_scales.py: VoltaCpuWorker, recording each layer's attention output and the normed last states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from toolkit.planning.attention_routes import VOLTA_CPU_FP8
from toolkit.plugin.layers import attention_layers
from toolkit.plugin.register import CPU_BACKEND
from toolkit.plugin.worker.cpu import VoltaCpuWorker


class RecordingWorker(VoltaCpuWorker):
    """Records every step between warm-up and `save_records`."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load; with our attention also on a CPU for which vLLM has its own, if that is asked for."""
        if self.vllm_config.additional_config["route"] == VOLTA_CPU_FP8:
            register_backend(AttentionBackendEnum.CPU_ATTN, CPU_BACKEND)
        super().load_model(*args, **kwargs)

    def compile_or_warm_up_model(self) -> Any:
        """Begin to record."""
        times = super().compile_or_warm_up_model()
        self.outputs: dict[str, list[Tensor]] = {}
        self.states: list[Tensor] = []
        for name, layer in attention_layers(self.vllm_config).items():
            self._watch(name, layer)
        self.model_runner.model.model.norm.register_forward_hook(
            lambda _, __, normed: self.states.append(normed[0].clone())
        )
        return times

    def save_records(self, path: str) -> None:
        """Write what was recorded and forget it."""
        joined = {name: torch.cat(steps) for name, steps in self.outputs.items()}
        torch.save({"outputs": joined, "states": torch.cat(self.states) if self.states else None}, path)
        self.outputs.clear()
        self.states.clear()

    def _watch(self, name: str, layer: Any) -> None:
        forward = layer.impl.forward

        def recorded(*args: Any, **kwargs: Any) -> Any:
            answer = forward(*args, **kwargs)
            output = kwargs["output"] if "output" in kwargs else args[6]
            self.outputs.setdefault(name, []).append(output.reshape(len(output), -1).clone())
            return answer

        layer.impl.forward = recorded
