"""Group `engine`: which build of vLLM serves, and in which environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class EngineName(Enum):
    """The two ways of running the same vLLM release."""

    cpu = "cpu"
    v100 = "v100"


@dataclass
class EngineConfig:
    """The engine and what its processes inherit."""

    name: EngineName = EngineName.cpu
    """`cpu` (any x86-64 machine) or `v100` (SM70 through our platform plugin)."""
    version: str = "0.32.0"
    """The vLLM release that the argument names and the capacity formula belong to."""
    python: str = ""
    """The interpreter of the engine's environment; empty for the one that runs the toolkit."""
    dtype: str = "float16"
    """Element type of weights and activations: `float16`, `float32` or, on the CPU engine, `bfloat16`."""
    compile: bool = False
    """Compile the model and capture graphs; off starts faster and is what the CPU engine uses."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables set for the engine, over those that the plan sets itself."""
    inherit: list[str] = field(
        default_factory=lambda: [
            "PATH",
            "HOME",
            "USER",
            "LOGNAME",
            "LANG",
            "LC_ALL",
            "LC_CTYPE",
            "TZ",
            "TMPDIR",
            "TERM",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "CUDA_VISIBLE_DEVICES",
            "CUDA_DEVICE_ORDER",
        ]
    )
    """Variables of the calling shell that the engine may see; everything else is dropped."""
    extra_arguments: list[str] = field(default_factory=list)
    """Arguments appended to the engine's command line as they are; all of them in one list, as the shell takes it:
    `'engine.extra_arguments=[--seed,7,"--scheduling-policy=fcfs"]'`."""
    start_timeout_s: float = 120.0
    """Seconds without any progress after which a start is given up; progress extends the deadline."""
    stop_timeout_s: float = 15.0
    """Seconds that a polite stop may take before the process group is killed."""
    measure_kv: bool = False
    """Let the workers measure keys and values; `calibrate` sets it."""
    prove_on_any_gpu: bool = False
    """v100: take a V100's routes on a newer GPU, to prove the arithmetic there."""
