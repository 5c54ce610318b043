"""What CUDA graphs take."""

from __future__ import annotations

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.budget import Term
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.shards import Rank, round_up
from toolkit.planning.graphs import capture_sizes
from toolkit.planning.memory.workspaces import activations

FIRST_BYTES = 70 * 2**20
"""What the first graphs bring, whatever they hold: an H200 with driver 580 (docs/evidence/gpu_memory_h200.json)."""
LAYER_BYTES = 220_000
"""A graph's nodes for one layer: 82 of the 2.7 kB that a kernel took there."""
MARGIN = 1.0
"""vllm pull request 11349: 35 graphs of 16 layers took 0.21 GiB; issue 50780: a graph of 64 layers takes 24 MiB.

Drivers below 550 took 3.4 times as much (vllm issue 5517). Drafts have graphs of their own.
"""


def decode_sizes(config: DeploymentConfig, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Rows of the graphs for steps in which every request has its next token and drafts to verify, ascending.

    vLLM 0.32, v1/worker/gpu/cudagraph_utils.py: _init_candidates.
    """
    query = 1 + config.speculative.tokens
    rounded = {round_up(size, query) for size in sizes}
    most = min(config.limits.max_num_seqs * query, max(sizes, default=0))
    return tuple(sorted(size for size in rounded if size <= most))


def graphs_term(config: DeploymentConfig, geometry: ModelGeometry, rank: Rank, element_bytes: int) -> Term:
    """The graphs' nodes, and the tensors of the largest, which all graphs share; 0 bytes where none is captured.

    A graph for any step is cut at every layer's attention, and one for uniform decoding is whole; both were seen to
    take about the same for a layer. An estimate: none was measured on a V100, and arguments may ask for fewer.
    """
    sizes = capture_sizes(config) if config.engine.compile else ()
    whole = decode_sizes(config, sizes)
    nodes = (len(sizes) + len(whole)) * len(geometry.layers) * LAYER_BYTES + (FIRST_BYTES if sizes else 0)
    pool = activations(geometry, rank, sizes[-1], element_bytes, decode=True) if sizes else 0
    source = f"{len(sizes)} piecewise and {len(whole)} full graphs x layers x 0.22 MB, 70 MiB, the largest's tensors"
    return Term("CUDA graphs", nodes + pool, source, MARGIN, estimate=True)
