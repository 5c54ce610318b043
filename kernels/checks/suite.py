"""Every check of every operator, as named cases that run on a given device."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kernels.checks import (
    activation,
    alias,
    cache_cases,
    dcp,
    gemma_norm,
    kv_cache,
    merge,
    moe_cases,
    norm,
    rejection,
    rotary,
    support,
)
from kernels.checks.case import TYPE_NAMES as _NAMES
from kernels.checks.case import Case
from kernels.checks.case import case as _case
from kernels.checks.compare import FLOAT, HALF


def cases() -> tuple[Case, ...]:
    """All cases, in a fixed order, with distinct names."""
    groups = (
        _norm(),
        _gemma_norm(),
        _activation(),
        _rotary(),
        _kv_cache(),
        cache_cases.cases(),
        _merge(),
        _dcp(),
        _sampling(),
        _alias(),
        moe_cases.cases(),
    )
    return tuple(itertools.chain(*groups))


def _norm() -> Iterator[Case]:
    for dtype, shape, shift in itertools.product((HALF, FLOAT), norm.SHAPES, (0, 1)):
        label = f"{_NAMES[dtype]}-{shape[0]}x{shape[1]}-shift{shift}"
        for check in (norm.rms_norm, norm.fused_add_rms_norm):
            name = f"{check.__name__}-{label}"
            yield _case(name, check, dtype, shape, weighted=(shape[0] + shift) % 3 != 0, shift=shift)
    for dtype in (HALF, FLOAT):
        yield _case(f"rms_norm-{_NAMES[dtype]}-strided", norm.strided, dtype)
        for columns in (128, 1000, 5120):
            yield _case(f"rms_norm-{_NAMES[dtype]}-batch-invariant-{columns}", norm.batch_invariant, dtype, columns)
    yield Case("rms_norm-special-values", lambda device, _seed: norm.special_values(device))


def _gemma_norm() -> Iterator[Case]:
    for (kind, form), shape, shift in itertools.product(enumerate(gemma_norm.FORMS), gemma_norm.SHAPES, (0, 1)):
        name = f"gemma_rms_norm-form{kind}-{shape[0]}x{shape[1]}-shift{shift}"
        yield _case(name, gemma_norm.norm, form, shape, shift=shift)
    for (kind, form), columns in itertools.product(enumerate(gemma_norm.FORMS), (128, 1000, 8192, 8193)):
        yield _case(f"gemma_rms_norm-form{kind}-same-bits-{columns}", gemma_norm.same_in_any_batch, form, columns)
    yield _case("gemma_rms_norm-plain-form", gemma_norm.plain_form)
    yield Case("gemma_rms_norm-unrounded-sum", lambda device, _seed: gemma_norm.unrounded_sum(device))
    yield Case("gemma_rms_norm-special-values", lambda device, _seed: gemma_norm.special_values(device))


def _activation() -> Iterator[Case]:
    for name, dtype, shape, shift in itertools.product(activation.OPERATORS, (HALF, FLOAT), activation.SHAPES, (0, 1)):
        label = f"{name}-{_NAMES[dtype]}-{shape[0]}x{shape[1]}-shift{shift}"
        yield _case(label, activation.gated, name, dtype, shape, shift=shift)
    for name in activation.OPERATORS:
        yield _case(f"{name}-strided", activation.strided, name)
        yield Case(f"{name}-nan", lambda device, _seed, name=name: activation.nan_stays(device, name))
    yield Case("silu_and_mul-every-half", lambda device, _seed: activation.every_half(device))
    yield Case("swigluoai_and_mul-every-half", lambda device, _seed: activation.every_half_clamped(device))
    yield Case("fatrelu_and_mul-every-half", lambda device, _seed: activation.every_half_above(device))


def _rotary() -> Iterator[Case]:
    forms = ((True, False, True), (True, True, False), (False, False, True), (False, True, False))
    for types, (number, shape), form in itertools.product(rotary.TYPES, enumerate(rotary.SHAPES), forms):
        neox, inverse, split = form
        label = f"{_NAMES[types[0]]}-{_NAMES[types[1]]}-shape{number}-{'neox' if neox else 'gptj'}"
        name = f"rotary_embedding-{label}{'-inverse' if inverse else ''}"
        yield _case(name, rotary.rotate, types, shape, neox=neox, inverse=inverse, split=split)
    yield Case("rotary_embedding-outside", lambda device, _seed: rotary.outside(device))
    yield _case("rotary_embedding-undone", rotary.undone)


def _kv_cache() -> Iterator[Case]:
    for form, layout, (number, shape) in itertools.product(
        kv_cache.FORMATS, kv_cache.LAYOUTS, enumerate(kv_cache.SHAPES)
    ):
        yield _case(f"kv_cache-{form}-{layout}-shape{number}", kv_cache.round_trip, form, layout, shape)
    for form in ("fp8_e4m3", "fp8_e5m2"):
        yield Case(f"kv_cache-{form}-every-code", lambda device, _seed, form=form: kv_cache.every_code(device, form))
    for form, scale in itertools.product(kv_cache.FORMATS, kv_cache.SCALES):
        yield Case(
            f"kv_cache-{form}-every-half-scale-{scale:.4g}",
            lambda device, _seed, form=form, scale=scale: kv_cache.every_half(device, form, scale),
        )


def _dcp() -> Iterator[Case]:
    for share in dcp.SHARES:
        label = f"rank{share.rank}of{share.dcp}-interleave{share.interleave}"
        yield _case(f"dcp_local_seq_lens-{label}", dcp.local_seq_lens, share)
        for blocks in (1, 4):
            block_size = share.interleave * blocks
            yield _case(f"dcp_slot_mapping-{label}-blocks-of-{block_size}", dcp.slot_mapping, share, block_size)
    yield _case("dcp_local_seq_lens-add-up", dcp.ranks_share_everything)
    yield _case("dcp_slot_mapping-one-owner", dcp.every_position_has_one_owner)


def _sampling() -> Iterator[Case]:
    for dtype, (vocabulary, width) in itertools.product((HALF, FLOAT), support.SIZES):
        name = f"topk_topp_support-{_NAMES[dtype]}-{vocabulary}-width{width}"
        yield _case(name, support.random_rows, dtype, vocabulary, width)
    yield _case("topk_topp_support-own-parameters", support.every_row_has_its_own_parameters)
    yield _case("topk_topp_support-ties", support.ties)
    yield _case("topk_topp_support-top-p-alone", support.top_p_alone)
    yield Case("topk_topp_support-special-rows", lambda device, _seed: support.special_rows(device))
    for number, batch in enumerate(rejection.BATCHES):
        yield _case(f"compact_rejection-batch{number}-like-dense", rejection.like_dense, batch)
    for model in (True, False):
        name = f"compact_rejection-true-distribution{'-draft-model' if model else ''}"
        yield Case(name, lambda device, _seed, model=model: rejection.true_distribution(device, draft_model=model))
    yield Case("compact_rejection-unusable-rows", lambda device, _seed: rejection.unusable_rows(device))


def _merge() -> Iterator[Case]:
    for types, (number, shape), base2, gate in itertools.product(
        merge.TYPES, enumerate(merge.SHAPES), (True, False), (True, False)
    ):
        label = f"{_NAMES[types[0]]}-{_NAMES[types[1]]}-shape{number}-base{2 if base2 else 'e'}"
        yield _case(
            f"merge_attention-{label}{'-gate' if gate else ''}", merge.merge, types, shape, base2=base2, gate=gate
        )
    yield Case("merge_attention-gate-roundings", lambda device, _seed: merge.gate_roundings(device))
    yield Case("merge_attention-closed-gates", lambda device, _seed: merge.closed_gates(device))
    for base2 in (True, False):
        name = f"merge_attention-extremes-base{2 if base2 else 'e'}"
        yield Case(name, lambda device, _seed, base2=base2: merge.extreme_lse(device, base2=base2))


def _alias() -> Iterator[Case]:
    for dtype in alias.DTYPES:
        yield _case(f"weak_ref_tensor-{str(dtype).removeprefix('torch.')}", alias.weak_ref, dtype)
    yield Case("weak_ref_tensor-empty", lambda device, _seed: alias.weak_ref_of_nothing(device))
