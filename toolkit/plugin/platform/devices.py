"""The compute capability of each visible GPU, asked of NVML.

Neither torch nor the driver is initialised here: once a process has done that, its forks cannot use the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.machine.visible_devices import chosen

Capability = tuple[int, int]


def visible_capabilities(environment: Mapping[str, str]) -> tuple[Capability, ...]:
    """One (major, minor) for each GPU that CUDA_VISIBLE_DEVICES leaves; empty without GPUs, a driver or NVML.

    Raises ImportError in a vLLM that brings no NVML bindings where 0.32 does: that says nothing about GPUs.
    """
    from vllm.utils.import_utils import import_pynvml

    nvml = import_pynvml()  # type: ignore[no-untyped-call]
    try:
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001 - a driver that is missing, too old or broken: there is nothing to serve on
        return ()
    try:
        return tuple(_capability(nvml, handle) for handle in _visible(nvml, environment.get("CUDA_VISIBLE_DEVICES")))
    finally:
        nvml.nvmlShutdown()


def _visible(nvml: Any, text: str | None) -> list[Any]:
    """Handles in the order of CUDA's own list."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    uuids = [str(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    return [handles[index] for index in chosen(text, uuids)]


def _capability(nvml: Any, handle: Any) -> Capability:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return int(major), int(minor)
