"""NCCL's buffers: one set for each group of ranks that the engine lets talk.

The engine has an NCCL communicator for tensor parallelism, one for the experts of a mixture, and one for DCP (vLLM
0.32, distributed/parallel_state.py and device_communicators/pynccl.py). Its own all-reduce kernels and symmetric
memory, which would take buffers as well, are off on a V100.
"""

from __future__ import annotations

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.budget import Term
from toolkit.planning.geometry.model import ModelGeometry

MIB = 2**20
CHANNELS = {"nvlink": 12, "pcie": 2}
"""NVIDIA/nccl issue 713: 6 rings over a V100's NVLinks, which NCCL doubles; vllm issue 4432: 2 channels without."""
RECEIVE_BYTES, SEND_BYTES = 10 * MIB, 2 * MIB
"""Of one connection in one channel: NVIDIA/nccl issue 1685. Received data waits in 4 MiB for the Simple protocol
(NCCL_BUFFSIZE), 4.69 for LL128 and 0.5 for LL, rounded up to the driver's 2 MiB; what is sent needs one such page."""
FIRST_BYTES = 32 * MIB
"""Kernels and queues, which the first communicator brings."""
MARGIN = 1.0
"""Trees are connected beside the rings once a message of their size is sent."""


def communicators(config: DeploymentConfig, geometry: ModelGeometry) -> int:
    """NCCL communicators that one rank takes part in."""
    if config.limits.tensor_parallel < 2:
        return 0
    return 1 + (geometry.experts is not None) + (config.dcp.size > 1)


def nccl_term(config: DeploymentConfig, geometry: ModelGeometry) -> Term:
    """The buffers of all communicators, each with a ring over every channel; 0 bytes on one GPU."""
    count = communicators(config, geometry)
    channels = CHANNELS.get(config.hardware.interconnect or "", max(CHANNELS.values()))
    size = FIRST_BYTES + count * channels * (RECEIVE_BYTES + SEND_BYTES) if count else 0
    source = f"communicators ({count}) x channels ({channels}) x 12 MiB of a ring: NVIDIA/nccl issues 713, 1685"
    return Term("NCCL buffers", size, source, MARGIN, beside_share=True)
