"""A driver that is no GPU, and launches that end after the compiler: what was compiled is noted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

FOREIGN = re.compile(r"bf16|e4m3|e5m2|cp\.async|ldmatrix|\bm?mma\b")
OPCODE = re.compile(r"^\s*(?:\{\s*)?(?:@!?%\w+\s+)?([a-z]\w*(?:\.\w+)+)\s", re.MULTILINE)
TARGET = GPUTarget("cuda", 70, 32)


class NoGpu:
    """What Triton asks of its driver before a launch."""

    def get_current_target(self) -> GPUTarget:
        return TARGET

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


@dataclass
class Recorder:
    """The kernels that launches came to."""

    kernels: dict[str, Any] = field(default_factory=dict)

    def install(self) -> None:
        """Before vLLM is imported, which asks whether there is exactly one active driver."""
        backends["nvidia"].driver.is_active = staticmethod(lambda: True)
        driver.set_active(NoGpu())
        launch = JITFunction.run

        def compiled(function: JITFunction, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
            kernel = launch(function, *arguments, grid=grid, warmup=True, **options)
            self.kernels[f"{function.__module__}.{function.__name__}"] = kernel
            return kernel

        def first(tuner: Autotuner, *arguments: Any, **options: Any) -> Any:
            """The first configuration: choosing among them takes a GPU."""
            tuner.nargs = dict(zip(tuner.arg_names, arguments, strict=False))
            chosen = (tuner.prune_configs(options) or tuner.configs)[0]
            return tuner.fn.run(*arguments, **{**options, **chosen.all_kwargs()})

        JITFunction.run = compiled
        Autotuner.run = first

    def take(self) -> dict[str, Any]:
        """What was compiled since the last call."""
        taken, self.kernels = self.kernels, {}
        return taken


def pretend_v100() -> None:
    """What launchers, layers and FLA ask of a GPU at import; after `install`, and before anything of a model."""
    import torch
    from vllm.platforms import current_platform

    torch.cuda.get_device_name = lambda *_: "Tesla V100-SXM2-32GB"
    torch.cuda.get_device_capability = lambda *_: (7, 0)
    torch.cuda.device_count = lambda: 1
    type(current_platform).num_compute_units = classmethod(lambda *_: 80)
    from toolkit.plugin.platform import proof

    proof.choose_like_a_v100()  # FLA's tiles for a V100's shared memory


def traits(kernel: Any) -> dict[str, Any]:
    """What a V100 must be able to give it, and instructions that it lacks."""
    opcodes = set(OPCODE.findall(kernel.asm["ptx"]))
    assert any(each.startswith("ld.param") for each in opcodes), "the PTX is not read"
    foreign = sorted(each for each in opcodes if FOREIGN.search(each))
    return {"shared": kernel.metadata.shared, "foreign": foreign, "target": kernel.metadata.target.arch}
