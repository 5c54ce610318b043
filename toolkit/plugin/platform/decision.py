"""Whether the platform is active, stays away, or must refuse; a pure function of what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from toolkit.planning.platform_demand import Demand
from toolkit.plugin.platform.devices import Capability

SM70: Capability = (7, 0)
SUPPORTED_VLLM = ("0.32.",)
SUPPORTED_TORCH = ("2.10.", "2.11.")
"""2.10 has sm_70 in its kernels; 2.11 serves the proof on newer GPUs."""


class Outcome(Enum):
    """What the plugin tells vLLM."""

    inactive = "inactive"
    active = "active"
    refused = "refused"


@dataclass(frozen=True)
class Decision:
    """An outcome and one sentence that says why."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Found:
    """What a process sees before vLLM has chosen its platform."""

    capabilities: Sequence[Capability]
    vllm: str
    torch: str
    torch_cuda: str | None
    """The CUDA version that torch was built for; None for a build without CUDA."""
    torch_archs: Sequence[str]
    """What torch's own kernels were built for, such as sm_70."""
    library_error: str | None
    """Why the native library cannot be used; None where it can."""


def decide(demand: Demand, found: Found) -> Decision:
    """The outcome for a demand on what was found.

    Without a demand, anything but V100s alone leaves vLLM as it is. With one, whatever is missing is a refusal: vLLM
    would otherwise start its own platform, which has no code for these GPUs.
    """
    if demand is Demand.none and (not v100s_alone(found.capabilities) or found.torch_cuda is None):
        return Decision(Outcome.inactive, f"the visible GPUs are {_names(found.capabilities)}, not V100s alone")
    problem = _release(found.vllm) or _devices(demand, found) or _software(found)
    if problem:
        return Decision(Outcome.refused, problem)
    return Decision(Outcome.active, f"{len(found.capabilities)} visible: {_names(found.capabilities)}")


def is_supported(vllm: str) -> bool:
    """Whether the plugin is made for that release of vLLM."""
    return vllm.startswith(SUPPORTED_VLLM)


def v100s_alone(capabilities: Sequence[Capability]) -> bool:
    """Whether there are GPUs, and all of them are V100s."""
    return bool(capabilities) and all(each == SM70 for each in capabilities)


def _devices(demand: Demand, found: Found) -> str | None:
    if not found.capabilities:
        return "no NVIDIA GPU is visible: look at nvidia-smi and at CUDA_VISIBLE_DEVICES"
    if len(set(found.capabilities)) > 1:
        return (
            f"the visible GPUs differ ({_names(found.capabilities)}): "
            "choose equal ones with CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    if min(found.capabilities) < SM70:
        return f"the visible GPUs are {_names(found.capabilities)}, older than the V100's 7.0"
    if demand is Demand.v100 and found.capabilities[0] != SM70:
        return (
            f"the visible GPUs are {_names(found.capabilities)}, and a V100 is 7.0: "
            "to prove the V100's routes on them, set engine.prove_on_any_gpu=true"
        )
    return None


def _release(vllm: str) -> str | None:
    if is_supported(vllm):
        return None
    return (
        f"vLLM is {vllm}, and this plugin is made for {SUPPORTED_VLLM[0]}x: "
        "pip install vllm==0.32.0, or set VLLM_PLUGINS= to leave vLLM as it is"
    )


def _software(found: Found) -> str | None:
    if found.torch_cuda is None:
        return f"torch {found.torch} has no CUDA: pip install torch==2.10.0"
    if not found.torch.startswith(SUPPORTED_TORCH):
        return f"torch is {found.torch}, and this plugin is made for 2.10: pip install torch==2.10.0"
    if found.capabilities[0] == SM70 and "sm_70" not in found.torch_archs:
        return f"torch {found.torch} has no code for sm_70: pip install torch==2.10.0 from PyPI"
    return found.library_error


def _names(capabilities: Sequence[Capability]) -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in capabilities) or "none"
