"""Kernels that torch.compile writes between the products of a layer, compiled for sm_70 without a GPU; JSON to a file.

Inductor is given graphs of tensors that have shapes on a V100 and no memory; its kernels end after the compiler.
"""

import contextlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parent))
os.environ |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0"}

from sm70.recorder import NoGpu, traits
from triton.backends import backends
from triton.runtime import driver

DEVICE = "cuda:0"
TOKENS, HIDDEN, WIDTH, HEADS, SIZE, VOCABULARY = 64, 1024, 2048, 8, 128, 32000


class Driver(NoGpu):
    """What Triton takes for the one driver there is."""

    is_active = staticmethod(lambda: True)
    utils = None


backends["nvidia"] = replace(backends["nvidia"], driver=Driver)
driver.set_active(Driver())

import torch  # noqa: E402

V100 = SimpleNamespace(
    name="Tesla V100-SXM2-32GB", major=7, minor=0, multi_processor_count=80, regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048, max_threads_per_block=1024, warp_size=32, total_memory=32 << 30,
    shared_memory_per_block=49152, shared_memory_per_block_optin=98304, shared_memory_per_multiprocessor=98304,
    L2_cache_size=6 << 20, gcnArchName="", is_integrated=0,
)  # fmt: skip
ANSWERS = {
    "is_available": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_properties": V100,
    "get_device_capability": (7, 0),
    "get_device_name": V100.name,
    "_lazy_init": None,
    "_exchange_device": 0,
    "_maybe_exchange_device": 0,
    "set_device": None,
    "synchronize": None,
}
for name, answer in ANSWERS.items():
    setattr(torch.cuda, name, lambda *_, said=answer: said)

import torch._dynamo.utils  # noqa: E402
from torch._dynamo.device_interface import CudaInterface  # noqa: E402
from torch._inductor.compile_fx import compile_fx_inner  # noqa: E402
from torch._inductor.decomposition import select_decomp_table  # noqa: E402
from torch._inductor.runtime.triton_heuristics import CachingAutotuner  # noqa: E402
from torch._subclasses import fake_tensor  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

torch._dynamo.utils.preserve_rng_state = contextlib.nullcontext
fake_tensor.init_gpu_context = lambda *_: None
CudaInterface.Worker.get_device_properties = staticmethod(lambda *_: V100)
made: list[dict[str, object]] = []
compile_one = CachingAutotuner._precompile_config


def compile_all(self, *_, **__):
    """Every configuration that a GPU would choose among."""
    for at, config in enumerate(self.configs):
        made.append({"kernel": self.fn.__name__, "configuration": at, **traits(compile_one(self, config).kernel)})


CachingAutotuner.precompile = compile_all


def norm(x, residual, weight):
    """Upstream's RMSNorm with a residual."""
    summed = x.float() + residual.float()
    scaled = summed * torch.rsqrt(summed.pow(2).mean(-1, keepdim=True) + 1e-6)
    return scaled.half() * weight, summed.half()


def gate(x):
    """SiLU of one half times the other."""
    left, right = x.chunk(2, dim=-1)
    return (torch.nn.functional.silu(left) * right,)


def rotate(x, angles):
    """NeoX's rotary embedding."""
    cosine, sine = angles.unsqueeze(-2).chunk(2, dim=-1)
    left, right = x.chunk(2, dim=-1)
    return (torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1),)


def choose(logits):
    """Probabilities, and the best token."""
    return torch.softmax(logits.float(), -1), logits.argmax(-1)


def half(*shape):
    return torch.empty(shape, dtype=torch.float16, device=DEVICE)


def cases():
    """A name, the function and its arguments."""
    yield "norm", norm, (half(TOKENS, HIDDEN), half(TOKENS, HIDDEN), half(HIDDEN))
    yield "gate", gate, (half(TOKENS, 2 * WIDTH),)
    yield "rotary embedding", rotate, (half(TOKENS, HEADS, SIZE), half(TOKENS, SIZE))
    yield "probabilities", choose, (half(TOKENS, VOCABULARY),)


def compiled(function, arguments):
    """What its kernels need, one row for each configuration."""
    made.clear()
    graph = make_fx(function, decomposition_table=select_decomp_table())(*arguments)
    compile_fx_inner(graph, list(arguments))
    return list(made)


with fake_tensor.FakeTensorMode():
    rows = [{"case": case, **row} for case, function, arguments in cases() for row in compiled(function, arguments)]
Path(sys.argv[1]).write_text(json.dumps(rows, indent=1))
