"""The checks of the operators around mixtures of experts, as named cases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from kernels.checks import gather_rows, grouped_topk, moe, penalties, topk
from kernels.checks.case import TYPE_NAMES, Case, case
from kernels.checks.compare import FLOAT, HALF


def cases() -> Iterator[Case]:
    """All of them, in a fixed order."""
    yield from _topk()
    yield from _grouped_topk()
    yield from _align()
    yield from _sum()
    yield from _gather_rows()
    yield from _penalties()


def _topk() -> Iterator[Case]:
    for scoring, dtype, shape, variant in itertools.product(topk.SCORINGS, (HALF, FLOAT), topk.SHAPES, range(4)):
        size = "x".join(str(n) for n in shape)
        name = f"topk_{scoring}-{TYPE_NAMES[dtype]}-{size}-variant{variant}"
        yield case(name, topk.topk, scoring, dtype, shape, variant=variant)
    for scoring in topk.SCORINGS:
        yield Case(
            f"topk_{scoring}-special-values",
            lambda device, _seed, scoring=scoring: topk.special_values(device, scoring),
        )
    yield Case("topk_sigmoid-strange-bias", lambda device, _seed: topk.strange_bias(device))
    yield case("topk_softplus_sqrt-by-token", topk.by_token)
    yield case("topk_softmax-batch-invariant", topk.batch_invariant)


def _grouped_topk() -> Iterator[Case]:
    types = ((FLOAT, FLOAT), (HALF, FLOAT), (HALF, HALF))
    for pair, (number, shape), sigmoid, renormalise in itertools.product(
        types, enumerate(grouped_topk.SHAPES), (False, True), (False, True)
    ):
        label = f"grouped_topk-{TYPE_NAMES[pair[0]]}-{TYPE_NAMES[pair[1]]}-shape{number}"
        name = f"{label}{'-sigmoid' if sigmoid else ''}{'-renormalised' if renormalise else ''}"
        yield case(name, grouped_topk.grouped_topk, pair, shape, sigmoid=sigmoid, renormalise=renormalise)
    yield Case("grouped_topk-special-values", lambda device, _seed: grouped_topk.special_values(device))


def _align() -> Iterator[Case]:
    for (number, shape), spread, mapped in itertools.product(enumerate(moe.SHAPES), moe.SPREADS, (False, True)):
        dtype = torch.int64 if (number + mapped) % 2 else torch.int32
        name = f"moe_align_block_size-shape{number}-{spread}{'-mapped' if mapped else ''}"
        yield case(name, moe.align, shape, spread, dtype, mapped=mapped)
    for number, shape in enumerate(moe.EDGES):
        name = f"moe_align_block_size-edge{number}"
        yield case(name, moe.align, shape, "even", torch.int32, mapped=False)
        yield case(f"{name}-strange-mapped", moe.align, shape, "strange", torch.int64, mapped=True)
    yield Case("moe_align_block_size-short-outputs", lambda device, _seed: moe.short_outputs(device))
    for mapped in (False, True):
        yield case(f"moe_lora_align_block_size{'-mapped' if mapped else ''}", moe.lora, mapped=mapped)
    batches = ([2, 3, 0, 6, 8], [0], [5], [], [9, -4, 8], [7] * 1030)
    for number, counts in enumerate(batches):
        yield Case(
            f"batched_moe_align_block_size-{number}",
            lambda device, _seed, counts=counts: moe.batched(device, counts, 8, 4 if len(counts) != 3 else 3),
        )


def _sum() -> Iterator[Case]:
    for dtype, shape, variant in itertools.product((HALF, FLOAT), moe.SUMS, range(4)):
        name = f"moe_sum-{TYPE_NAMES[dtype]}-{'x'.join(str(n) for n in shape)}-variant{variant}"
        yield case(name, moe.moe_sum, dtype, shape, variant=variant)


def _gather_rows() -> Iterator[Case]:
    for name, (number, shard), width, shift in itertools.product(
        gather_rows.TYPES, enumerate(gather_rows.SHARDS), gather_rows.WIDTHS, (0, 1)
    ):
        label = f"vocab_parallel_embedding-{name}-shard{number}-{width}-shift{shift}"
        yield case(label, gather_rows.embedding, name, shard, width, shift=shift)
    yield Case("vocab_parallel_embedding-missing-rows", lambda device, _seed: gather_rows.missing_rows(device))
    for name, width, shift in itertools.product(gather_rows.TYPES, gather_rows.WIDTHS, (0, 1)):
        yield case(f"shuffle_rows-{name}-{width}-shift{shift}", gather_rows.shuffle, name, width, shift=shift)
    for name in gather_rows.TYPES:
        yield case(f"shuffle_rows-{name}-one-row", gather_rows.one_row, name)


def _penalties() -> Iterator[Case]:
    for dtype, shape, shift in itertools.product((HALF, FLOAT), penalties.SHAPES, (0, 1)):
        name = f"apply_repetition_penalties_-{TYPE_NAMES[dtype]}-{shape[0]}x{shape[1]}-shift{shift}"
        yield case(name, penalties.penalties, dtype, shape, shift=shift)
