# ruff: noqa: S101 - a check is an assertion
"""swap_blocks and swap_blocks_batch."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.checks.compare import generator

BLOCK = 96  # bytes


def _bytes(blocks: int, device: str, g: torch.Generator, *, pinned: bool = False) -> Tensor:
    numbers = torch.randint(0, 256, (blocks, BLOCK), generator=g, dtype=torch.uint8)
    return numbers.pin_memory() if pinned else numbers.to(device)


def _sides(device: str) -> tuple[tuple[str, str], ...]:
    return ((device, device),) if device == "cpu" else ((device, device), (device, "cpu"), ("cpu", device))


def blocks(device: str, seed: int) -> None:
    """Some blocks, in any order, between every two kinds of memory; the others stay as they are."""
    g = generator("cpu", seed)
    mapping = torch.tensor([[3, 0], [0, 6], [5, 1]])
    for source, target in _sides(device):
        for dtype in (torch.uint8, torch.float16, torch.float32):
            src, dst = _bytes(7, source, g).view(dtype), _bytes(8, target, g).view(dtype)
            expected = dst.clone()
            expected[mapping[:, 1]] = src[mapping[:, 0]].to(target)
            torch.ops.volta.swap_blocks(src, dst, BLOCK, mapping)
            if device != "cpu":
                torch.cuda.synchronize()
            assert torch.equal(dst.view(torch.uint8), expected.view(torch.uint8)), f"{source} to {target}, {dtype}"


def batch(device: str, seed: int) -> None:
    """Copies of several lengths by address, on the default stream and on another, in both orders of access."""
    g = generator("cpu", seed)
    gpu = device != "cpu"
    for source, target in _sides(device):
        src, dst = (_bytes(9, place, g, pinned=gpu and place == "cpu") for place in (source, target))
        sizes = torch.tensor([96, 1, 40, 0, 200] if not gpu else [96, 1, 40, 200])
        starts = torch.arange(len(sizes)) * 160
        for any_order in (False, True):
            expected = dst.clone()
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
                expected.view(-1)[start : start + size] = src.view(-1)[start : start + size].to(target)
            arguments = (src.data_ptr() + starts, dst.data_ptr() + starts, sizes, any_order)
            if gpu:
                stream = torch.cuda.Stream() if any_order else torch.cuda.current_stream()
                torch.cuda.synchronize()
                with torch.cuda.stream(stream):
                    torch.ops.volta.swap_blocks_batch(*arguments)
                torch.cuda.synchronize()
            else:
                torch.ops.volta.swap_blocks_batch(*arguments)
            assert torch.equal(dst, expected), f"{source} to {target}"
            dst.zero_()
