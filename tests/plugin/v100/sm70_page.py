"""docs/triton-sm70.md, from what the compiler said: test_triton.py compares it, or writes it with WRITE_DOCS=1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .sm70_elsewhere import ELSEWHERE

PAGE = Path(__file__).resolve().parents[3] / "docs/triton-sm70.md"
HEADER = "<!-- generated: WRITE_DOCS=1 ./quickstart test tests/plugin/v100/test_triton.py -->"
INTRODUCTION = """\
# Triton kernels on SM70

The Triton kernels of vLLM 0.32.0's serving paths, compiled for sm_70 by Triton 3.6.0 under torch 2.10.0, without a GPU,
on every run of the suite. Upstream's own launchers are called with tensors on the CPU and nothing is launched, so that
signatures and constants are the ones that serving uses: 8 query and 2 KV heads, or 2 key and 4 value heads in recurrent
layers. A V100 gives a block 98,304 bytes of shared memory. No kernel uses a tensor core: Triton has none for SM70, so
these are the routes that are right before they are fast.
"""
TITLES = {
    "attention": "Attention and its cache",
    "experts": "Mixtures of experts",
    "recurrent": "Gated delta rule",
    "states": "States between steps, and rotary positions",
    "batch": "The batch",
    "sampling": "Sampling",
    "requests": "What single requests ask for",
    "drafts": "Drafts and their verification",
    "lora": "Adapters",
}
REPLACED = {
    "decode, head 128, cache of upstream's E4M3 type": (
        "a cache of bytes that `toolkit.plugin.patches.triton_e4m3` decodes; `torch.ops.volta.kv_cache_write` writes it"
    ),
}
"""Cases that do not compile, and what serves in their place."""
NOT_COVERED = """\
## Loaded and not launched

The modules that serving loads, and those that these import only when they need them, hold these kernels as well. The
suite fails where one of their kernels is neither above nor here.

| kernels | for |
|---|---|
{rows}

Of autotuned kernels the first configuration is compiled; which one is the fastest, a GPU finds out at the first start.
FP8 cache writes are the native library's. The kernels that torch.compile writes for each model are not here: they are
made at the first start. That such kernels compile for sm_70 is tested with a norm, a gate, a rotary embedding and a
softmax (tests/plugin/v100/test_inductor.py). Compiling says nothing about speed.
"""


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The page's text."""
    return "\n".join([HEADER, INTRODUCTION, *_sections(rows), NOT_COVERED.format(rows=_elsewhere())])


def _sections(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for part, title in TITLES.items():
        yield f"## {title}\n"
        yield "| kernel | for | state | shared memory, bytes |"
        yield "|---|---|---|---:|"
        yield from (_row(row) for row in rows if row["part"] == part)
        yield ""


def _row(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"| | {row['case']} | does not compile; instead: {REPLACED.get(row['case'], 'nothing')} | |"
    module, _, name = row["kernel"].rpartition(".")
    return f"| `{name}` ({module.rpartition('.')[2]}) | {row['case']} | compiles | {row['shared']:,} |"


def _elsewhere() -> str:
    return "\n".join(f"| `{name.removeprefix('vllm.')}` | {why} |" for name, why in ELSEWHERE.items())
