# ruff: noqa: S101 - a check is an assertion
"""weak_ref_tensor and get_cuda_view_from_cpu_tensor."""

from __future__ import annotations

import gc

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from kernels.checks.compare import generator

DTYPES = (torch.float16, torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8, torch.float8_e4m3fn)
VIEWS_END = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 11)
"""Whether the CPU tensor is let go when its view is; in torch 2.10 it stays until the process ends."""


def _numbers(shape: tuple[int, ...], dtype: torch.dtype, g: torch.Generator) -> Tensor:
    size = torch.empty(0, dtype=dtype).element_size()
    top = 2 if dtype == torch.bool else 120
    numbers = torch.randint(0, top, (*shape, size), generator=g, device=g.device, dtype=torch.uint8)
    return numbers.view(dtype).squeeze(-1)


def _bytes(x: Tensor) -> Tensor:
    return x.contiguous().flatten().view(torch.uint8)


def _same(x: Tensor, y: Tensor) -> bool:
    return torch.equal(_bytes(x), _bytes(y).to(x.device))


def weak_ref(device: str, dtype: torch.dtype, seed: int) -> None:
    """The alias has the same bytes at the same place, writes go through both, and it does not keep them alive."""
    whole = _numbers((6, 40), dtype, generator(device, seed))
    for x in (whole, whole[1:, 3:37:2], whole.T, whole[2, 5], whole[:, :1].expand(6, 9)):
        alias = torch.ops.volta.weak_ref_tensor(x)
        assert (alias.data_ptr(), alias.shape, alias.stride()) == (x.data_ptr(), x.shape, x.stride())
        assert (alias.dtype, alias.device) == (x.dtype, x.device)
        assert _same(alias, x)
    alias = torch.ops.volta.weak_ref_tensor(whole)
    whole[2, 5] = 1
    assert _same(alias, whole), "a write to the tensor shows in its alias"
    alias[3, 7] = 1
    assert _same(alias, whole), "a write to the alias shows in the tensor"
    storage = StorageWeakRef(whole.untyped_storage())
    del whole, x
    gc.collect()
    assert storage.expired(), "the alias keeps the memory"


def weak_ref_of_nothing(device: str) -> None:
    """An empty tensor gives an empty tensor."""
    for shape in ((0,), (3, 0, 5)):
        alias = torch.ops.volta.weak_ref_tensor(torch.empty(shape, dtype=torch.float16, device=device))
        assert (alias.shape, alias.dtype, alias.device.type) == (shape, torch.float16, device)


def cuda_view(seed: int) -> None:
    """CPU and GPU see one memory, whatever its type and strides, as long as the view lives."""
    g = generator("cpu", seed)
    for dtype in DTYPES:
        whole = _numbers((6, 40), dtype, g).pin_memory()
        for x in (whole, whole[1:, 3:37:2], whole.T, whole[2, 5]):
            view = torch.ops.volta.get_cuda_view_from_cpu_tensor(x)
            assert (view.device.type, view.dtype) == ("cuda", x.dtype)
            assert (view.shape, view.stride()) == (x.shape, x.stride())
            assert _same(view, x), f"{dtype} {tuple(x.shape)}"
        view = torch.ops.volta.get_cuda_view_from_cpu_tensor(whole)
        whole[2, 5] = 1
        assert _same(view, whole), "a write by the CPU reaches the GPU"
        view[3, 7] = 1
        torch.cuda.synchronize()
        assert _same(view, whole), "a write by the GPU reaches the CPU"
    empty = torch.ops.volta.get_cuda_view_from_cpu_tensor(torch.empty(3, 0, dtype=torch.int32))
    assert (empty.shape, empty.dtype, empty.device.type) == ((3, 0), torch.int32, "cuda")


def cuda_view_lives(seed: int) -> None:
    """The view keeps the CPU tensor, and its slices do; when the last is gone, so is the CPU tensor."""
    x = _numbers((64,), torch.int64, generator("cpu", seed)).pin_memory()
    kept, storage = x.clone(), StorageWeakRef(x.untyped_storage())
    part = torch.ops.volta.get_cuda_view_from_cpu_tensor(x)[8:]
    del x
    gc.collect()
    assert not storage.expired(), "the view lets the memory go"
    assert torch.equal(part.cpu(), kept[8:])
    del part
    gc.collect()
    assert storage.expired() == VIEWS_END, "the view's end"


def cuda_view_of_pageable_memory(seed: int) -> None:
    """Memory that is not pinned gives a pinned copy, as upstream does: equal now, and apart from then on."""
    x = _numbers((7, 33), torch.float32, generator("cpu", seed))
    view = torch.ops.volta.get_cuda_view_from_cpu_tensor(x[:, 1:])
    assert _same(view, x[:, 1:])
    before = view.clone()
    x.zero_()
    assert _same(view, before), "the copy is apart"


def cuda_view_in_a_graph(seed: int) -> None:
    """A replayed graph reads what the CPU wrote into the memory since the capture."""
    g = generator("cpu", seed)
    x = _numbers((256,), torch.int64, g).pin_memory()
    result = torch.empty(256, dtype=torch.int64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weak = torch.ops.volta.weak_ref_tensor(result)
        torch.add(torch.ops.volta.get_cuda_view_from_cpu_tensor(x), 1, out=weak)
    for _ in range(2):
        x.copy_(_numbers((256,), torch.int64, g))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(result.cpu(), x + 1)


def cuda_view_refuses_cuda() -> None:
    """A tensor that is on the GPU already is an error."""
    try:
        torch.ops.volta.get_cuda_view_from_cpu_tensor(torch.ones(2, device="cuda"))
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        assert text == "volta::get_cuda_view_from_cpu_tensor: cpu_tensor must be on the CPU", text
    else:
        raise AssertionError("a CUDA tensor was accepted")


CUDA_VIEWS = (cuda_view, cuda_view_lives, cuda_view_of_pageable_memory, cuda_view_in_a_graph)
"""What only a GPU shows."""
