"""What the driver and the libraries take on a GPU, whatever model is served.

None of it was measured by us on a V100. Each number is the least that was published for one, and the margin reaches
up to the most that was published, or measured by benchmarks/gpu_memory.py, for newer driver versions and GPUs.
"""

from __future__ import annotations

from toolkit.planning.budget import Term

MIB = 2**20
CONTEXT_BYTES = 319 * MIB
"""pytorch issue 28394: 320.2 MiB used with a bare context, 0.9 without, on a Titan V, which has a V100's 80 SMs."""
CONTEXT_MARGIN = 0.5
"""pytorch issue 20532: up to 400 MB on a V100; unsloth-zoo pull request 1053: 426 MiB with torch 2.10 on 142 SMs.

An H200 took 527 MiB with driver 580 (docs/evidence/gpu_memory_h200.json). 264 of them are 1 KiB of local memory for
each of 2048 threads on 132 SMs, to the byte; a V100's 80 SMs need 160, and so 423 in all.
"""
KERNELS_BYTES = 100 * MIB
"""Code that is loaded when it is first called: torch's and cuBLAS's kernels, Triton's, and ours.

On an H200 the first kernel of torch brought 92 MiB, the first products in FP16 66, and Triton's and ours none.
"""
KERNELS_MARGIN = 1.0
WORKSPACE_BYTES = 8_519_680
"""torch's cuBLAS workspace for each stream, as :4096:2:16:8 asks for it below capability 9.0."""
STREAMS = 2
"""The stream that serves, and the one that captures."""


def context_term() -> Term:
    """What a process takes on its GPU before anything else, and before the engine looks how much is free."""
    source = "a bare context on 80 SMs of this chip: pytorch issue 28394; margin from newer drivers"
    return Term("CUDA context", CONTEXT_BYTES, source, CONTEXT_MARGIN, beside_share=True)


def kernels_term() -> Term:
    """Code as it is first called, and the workspaces of matrix products."""
    source = "two workspaces of 8.1 MiB, and code as it is called: 0.04 to 0.16 GiB in vllm 12529 and 12126"
    return Term("cuBLAS and kernels", KERNELS_BYTES + STREAMS * WORKSPACE_BYTES, source, KERNELS_MARGIN)
