"""One rank's memory by purpose, from the configuration, the model's shapes and the checkpoint's headers."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.capacity.caches import ELEMENT_BYTES
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.shards import rank_of
from toolkit.planning.kv_memory import kv_cache_memory_bytes
from toolkit.planning.memory.budget import Budget, Place, Term
from toolkit.planning.memory.embedding import table_bytes
from toolkit.planning.memory.published import CPU_PROCESSES_BYTES, DRAFT_BYTES
from toolkit.planning.memory.weights import packed_copies, weights_term, widened_scales
from toolkit.planning.memory.workspaces import logits, prefill_bridge
from toolkit.planning.switch_values import default

_NO_NUMBER_ON_GPU = ("CUDA context", "NCCL buffers", "activations", "CUDA graphs")
"""Terms that nobody has published for a V100; the engine finds them by profiling."""


def plan_budget(config: DeploymentConfig, geometry: ModelGeometry, facts: CheckpointFacts | None = None) -> Budget:
    """Return one rank's budget: each term with its source and margin, and the purposes that have no number.

    Raises ConfigurationError where the model does not divide over ranks.
    """
    limits = config.limits
    terms = [weights_term(geometry, facts, limits.tensor_parallel, ELEMENT_BYTES[config.engine.dtype])]
    terms += _engine_terms(config, geometry)
    kv = kv_cache_memory_bytes(config)
    if kv is not None:
        terms.append(Term("KV cache and recurrent state", kv, "as the engine is told"))
    return Budget(tuple(term for term in terms if term.bytes), tuple(_unknown(config, geometry, kv)))


def _engine_terms(config: DeploymentConfig, geometry: ModelGeometry) -> Iterator[Term]:
    limits, rows = config.limits, config.limits.max_num_seqs
    drafted = logits(geometry, rows, config.speculative.tokens)
    yield Term("logits", drafted, "rows of one step x vocabulary x 4 bytes")
    if config.engine.name is EngineName.cpu:
        yield Term("engine processes", CPU_PROCESSES_BYTES, "measured with a model of no size, vLLM 0.32", 0.2)
        return
    rank = rank_of(geometry, limits.tensor_parallel)
    scales = widened_scales(geometry, limits.tensor_parallel)
    yield Term("NVFP4 scales in FP16", scales, "one byte more for every 16 weights")
    if _on(config, "nvfp4_qpn2"):
        copies = sum(packed_copies(geometry, limits.tensor_parallel))
        yield Term("packed NVFP4 copies", copies, "4-bit codes and FP8 scales at padded widths; published for the 27B")
    if config.kv.dtype != "float16":
        bridge = prefill_bridge(geometry, rank, limits.max_model_len)
        yield Term("FP8 prefill bridge", bridge, "keys and values of the longest request in FP16; published")
    draft = DRAFT_BYTES.get(config.speculative.draft_repository or "", 0)
    if config.speculative.method == "dflash2" and draft:
        yield Term("draft model", draft // limits.tensor_parallel, "its file, divided over ranks", 0.1)
    table = table_bytes(geometry)
    if table:
        source = "rows x elements in FP8, divided over ranks; published as 47.684 GiB in all"
        yield Term("n-gram embedding", table // limits.tensor_parallel, source, place=Place.host)


def _unknown(config: DeploymentConfig, geometry: ModelGeometry, kv: int | None) -> Iterator[str]:
    if config.engine.name is EngineName.v100:
        yield from _NO_NUMBER_ON_GPU
    else:
        yield "activations"
    if kv is None:
        yield "KV cache and recurrent state"
    if geometry.vision is not None:
        yield "image and video buffers"
    repository = config.speculative.draft_repository or ""
    if config.speculative.method == "dflash2" and repository not in DRAFT_BYTES:
        yield "draft model"


def _on(config: DeploymentConfig, switch: str) -> bool:
    explicit: bool | None = getattr(config.switches, switch)
    rule: str = type(config.switches).__dataclass_fields__[switch].metadata["default"]
    return default(rule, config)[0] if explicit is None else explicit
