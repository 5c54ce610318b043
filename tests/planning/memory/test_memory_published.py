"""Published sums lie between the terms and the terms with all margins, and these are not far apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from memory_cases import DENSE, FLASH_NEXT, GIB, absent, checkpoint, dflash2, geometry, purposes, v100

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.budget import Budget, Term
from toolkit.planning.capacity.caches import ELEMENT_BYTES
from toolkit.planning.geometry.shards import rank_of
from toolkit.planning.memory import plan_budget
from toolkit.planning.memory.embedding import table_bytes
from toolkit.planning.memory.weights import Loaded, vision_term, weights_term

CARD = 34_072_428_544
"""Bytes of a 32 GB V100, 31.73 GiB."""
OUTSIDE = ("CUDA context", "NCCL buffers", "cuBLAS and kernels", "CUDA graphs")
"""What torch's allocator does not know of."""


def as_published(config: DeploymentConfig, layers: int) -> Budget:
    """With two buffers as the public fork has them.

    All its sparse layers share that of their selections (its pull request 460), and the keys and values of the longest
    request in FP16 are laid out for prefill, as its kernel does not read FP8.
    """
    model = geometry(FLASH_NEXT)
    budget = plan_budget(config, model, absent(FLASH_NEXT))
    found = purposes(budget)["sparse selections"]
    shared = replace(found, bytes=found.bytes // layers)
    heads = rank_of(model, config.limits.tensor_parallel).kv_heads
    bridge = Term("bridge", 2 * config.limits.max_model_len * heads * model.attention.head_dim * 2, "published")
    return Budget((*(shared if term is found else term for term in budget.terms), bridge))


def without(budget: Budget, *names: str) -> Budget:
    return Budget(tuple(term for term in budget.terms if term.purpose not in names))


def flash_next() -> DeploymentConfig:
    return v100(kv_cache_memory_bytes=4 * GIB, max_num_batched_tokens=8192)


@pytest.mark.parametrize("allocated", [25.414, 25.567], ids=["dcp1", "dcp2"])
def test_flash_next_after_start(allocated: float) -> None:
    budget = as_published(flash_next(), 12)
    kept = without(budget, "activations", "image and video buffers", *OUTSIDE)
    assert kept.total() / GIB < allocated < kept.most() / GIB
    assert kept.most() / kept.total() < 1.05


def test_flash_next_at_its_peak() -> None:
    """Allocated by torch; with all else it was less than the card, on which it ran."""
    budget = as_published(flash_next(), 12)
    allocated = without(budget, *OUTSIDE)
    assert allocated.total() / GIB < 27.009 < allocated.most() / GIB
    assert allocated.most() / allocated.total() < 1.08
    assert budget.total() < budget.most() < CARD


def test_flash_next_within_a_share_of_96_percent() -> None:
    """Pull request 702: it started, so that much was free, and profiling left 547 blocks of 11,980,800 bytes."""
    config = v100(max_num_batched_tokens=8192, gpu_memory_utilization=0.96)
    config.speculative.method, config.speculative.tokens, config.engine.compile = "mtp", 3, True
    budget = as_published(config, 13)
    share, blocks = int(CARD * 0.96), 547
    assert budget.beside_share().total() < budget.beside_share().most() < CARD - share
    taken = share - blocks * 11_980_800
    assert budget.in_share().total() < taken < budget.in_share().most()
    assert budget.in_share().most() / budget.in_share().total() < 1.15


def test_the_27b_with_its_draft_once_loaded() -> None:
    found = purposes(plan_budget(dflash2(), geometry(DENSE)))
    names = ("weights", "vision encoder", "NVFP4 scales in FP16", "packed NVFP4 copies", "draft model")
    loaded = Budget(tuple(found[name] for name in names))
    assert loaded.total() / GIB < 11.08 < loaded.most() / GIB
    assert loaded.most() / loaded.total() < 1.25


def test_flash_nexts_checkpoint_by_its_shapes() -> None:
    """122.9 GiB in all, as declared, of which the table of n-grams has 47.684."""
    model, whole = geometry(FLASH_NEXT), Loaded(1, ELEMENT_BYTES["float16"])
    vision = vision_term(model, None, whole)
    assert vision is not None
    shapes = Budget((weights_term(model, None, whole), vision))
    published = checkpoint(FLASH_NEXT)["declared_weight_bytes"] - table_bytes(model)
    assert shapes.total() < published < shapes.most()
    assert shapes.most() / shapes.total() < 1.07


def test_smollm2_by_its_shapes_is_its_file_to_the_byte() -> None:
    shapes = purposes(plan_budget(DeploymentConfig(), geometry("smollm2")))["weights"]
    assert shapes.bytes == checkpoint("smollm2")["declared_weight_bytes"]
    assert shapes.margin <= 0.02
