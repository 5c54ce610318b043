"""One rank's memory by purpose, from the configuration, the model's shapes and the checkpoint's headers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.limits import EmbeddingPlace, LimitsConfig
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.budget import Budget, Place, Term
from toolkit.planning.capacity.caches import ELEMENT_BYTES
from toolkit.planning.extra_arguments import takes
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.shards import rank_of
from toolkit.planning.kv_memory import kv_cache_memory_bytes
from toolkit.planning.memory.communicators import nccl_term
from toolkit.planning.memory.driver import context_term, kernels_term
from toolkit.planning.memory.embedding import table_bytes
from toolkit.planning.memory.graphs import graphs_term
from toolkit.planning.memory.published import ACTIVATIONS_MARGIN, CPU_PROCESSES_BYTES, DRAFT_BYTES
from toolkit.planning.memory.vision import ENCODER_MARGIN, image_buffers
from toolkit.planning.memory.weights import (
    Loaded,
    packed_copies,
    rank_bytes,
    vision_term,
    weights_term,
    widened_scales,
)
from toolkit.planning.memory.workspaces import activations, logits, selections
from toolkit.planning.switch_values import settle
from toolkit.planning.targets import has_target

KV = "KV cache and recurrent state"


def plan_budget(
    config: DeploymentConfig,
    geometry: ModelGeometry,
    facts: CheckpointFacts | None = None,
    draft: CheckpointFacts | None = None,
    environment: Mapping[str, str] | None = None,
) -> Budget:
    """Return one rank's budget: each term with its source and margin, and the purposes that the plan does not decide.

    draft: what is known of a draft model's own checkpoint. environment: the shell's variables that set switches.
    Raises ConfigurationError where the model does not divide over ranks.
    """
    loaded = Loaded(
        config.limits.tensor_parallel,
        ELEMENT_BYTES[config.engine.dtype],
        vision=takes(config.engine.extra_arguments, "image", "video"),
        next_token=config.speculative.method == "mtp",
    )
    terms = [weights_term(geometry, facts, loaded), *_optional(vision_term(geometry, facts, loaded))]
    terms += [*_optional(_draft(config, draft)), *_work(config, geometry, loaded)]
    terms += _engine_terms(
        config, geometry, {switch.name: switch.value for switch in settle(config, environment or {})}
    )
    kv = kv_cache_memory_bytes(config)
    if kv is not None:
        source = "the least that meets the target" if has_target(config) else "as the engine is told"
        terms.append(Term(KV, kv, source))
    counted = tuple(term for term in terms if term.bytes)
    return Budget(counted, tuple(_unknown(config, {term.purpose for term in counted})))


def _work(config: DeploymentConfig, geometry: ModelGeometry, loaded: Loaded) -> Iterator[Term]:
    """What computing a step takes."""
    limits, element = config.limits, loaded.element_bytes
    rank = rank_of(geometry, limits.tensor_parallel)
    size = activations(geometry, rank, limits.max_num_batched_tokens, element)
    source = "the widest layer for the tokens of one step; margin from published peaks"
    yield Term("activations", size, source, ACTIVATIONS_MARGIN)
    drafted = logits(geometry, limits.max_num_seqs, config.speculative.tokens)
    yield Term("logits", drafted, "rows of one step x vocabulary x 4 bytes")
    chosen = selections(geometry, limits.max_num_batched_tokens, loaded.next_token)
    yield Term(
        "sparse selections", chosen, "tokens of one step x the indexer's budget x 4 bytes, for each sparse layer"
    )
    if geometry.vision is not None and loaded.vision:
        cache, encoding = image_buffers(geometry.vision, limits.tensor_parallel, limits.max_num_batched_tokens, element)
        source = "the encoder's cache, and its activations beyond those of a step of text"
        more = cache + max(0, encoding - size)
        yield Term("image and video buffers", more, source, ENCODER_MARGIN, estimate=True)


def _engine_terms(config: DeploymentConfig, geometry: ModelGeometry, switches: Mapping[str, bool]) -> Iterator[Term]:
    limits = config.limits
    if config.engine.name is EngineName.cpu:
        yield Term("engine processes", CPU_PROCESSES_BYTES, "measured with a model of no size, vLLM 0.32", 0.2)
        return
    yield context_term()
    yield kernels_term()
    yield nccl_term(config, geometry)
    yield graphs_term(config, geometry, rank_of(geometry, limits.tensor_parallel), ELEMENT_BYTES[config.engine.dtype])
    scales = widened_scales(geometry, limits.tensor_parallel)
    yield Term("NVFP4 scales in FP16", scales, "one byte more for every 16 weights", estimate=True)
    if switches["nvfp4_qpn2"]:
        copies = sum(packed_copies(geometry, limits.tensor_parallel))
        source = "4-bit codes and FP8 scales at padded widths; published for the 27B"
        yield Term("packed NVFP4 copies", copies, source, estimate=True)
    yield _table(limits, table_bytes(geometry))


def _table(limits: LimitsConfig, size: int) -> Term:
    source = "rows x elements in FP8, divided over ranks; published as 47.684 GiB in all"
    place = _PLACES[limits.ngram_embedding]
    return Term("n-gram embedding", size // limits.tensor_parallel, source, place=place, locked=place is Place.host)


_PLACES = {EmbeddingPlace.gpu: Place.device, EmbeddingPlace.pinned: Place.host, EmbeddingPlace.disk: Place.disk}


def _draft(config: DeploymentConfig, draft: CheckpointFacts | None) -> Term | None:
    if not config.speculative.has_draft:
        return None
    ranks = config.limits.tensor_parallel
    if draft is not None and draft.tensors:
        size = rank_bytes(draft.tensors.values(), ranks)
        return Term("draft model", size, "its tensor headers, matrices divided over ranks", 0.05)
    published = DRAFT_BYTES.get(config.speculative.draft_repository or "")
    if published is None or config.speculative.draft_path:
        return None
    return Term("draft model", published // ranks, "its published file, divided over ranks", 0.1)


def _unknown(config: DeploymentConfig, counted: Collection[str]) -> Iterator[str]:
    """Purposes that take memory and that the plan does not decide, or about which nothing was published."""
    if KV not in counted:
        yield KV
    if config.speculative.has_draft and "draft model" not in counted:
        yield "draft model"


def _optional(term: Term | None) -> tuple[Term, ...]:
    return () if term is None else (term,)
