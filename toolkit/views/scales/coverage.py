"""Whether the scales on offer are those that the checkpoint needs: exact names, no more and no fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolkit.checkpoint.faults import check_failed
from toolkit.errors import CheckFailedError, Rejected
from toolkit.views.scales.names import ScaleNames
from toolkit.views.scales.pack import ScalePack

_CALIBRATE = "use the pack of this very checkpoint, or calibrate again"


@dataclass(frozen=True)
class Coverage:
    """Scales that fit a checkpoint."""

    target: Mapping[str, float]
    draft: Mapping[str, float]
    fallen: tuple[str, ...]
    """Target scales that nothing sets, so that the engine takes 1.0; only without `strict`."""


def cover(names: ScaleNames, scales: Mapping[str, float], *, strict: bool, needs_draft: bool) -> Coverage:
    """The scales as the checkpoint takes them; CheckFailedError where one is missing or belongs nowhere."""
    unknown = sorted(scales.keys() - names.target - names.draft)
    if unknown:
        reasons = [Rejected(name, "the checkpoint has no such attention layer") for name in unknown]
        raise check_failed(reasons, where=names.prefix, fix=_CALIBRATE)
    target = {name: scales[name] for name in sorted(names.target & scales.keys())}
    draft = {name: scales[name] for name in sorted(names.draft & scales.keys())}
    fallen = tuple(sorted(names.target - target.keys()))
    if fallen and strict:
        fix = f"{_CALIBRATE}; overlay.strict=false serves with 1.0 for these, which clips above 448"
        raise _missing("Strict KV scales", len(target), len(names.target), fallen, fix)
    absent = tuple(sorted(names.draft - draft.keys()))
    if absent and (needs_draft or draft):
        fix = "calibrate the draft too, or set views.draft_scales=prototype:unit to try it without"
        raise _missing("Draft KV scales never fall back", len(draft), len(names.draft), absent, fix)
    return Coverage(target, draft, fallen)


def _missing(what: str, loaded: int, required: int, names: Sequence[str], fix: str) -> CheckFailedError:
    text = f"{what}: loaded {loaded} of {required} required. Missing: {', '.join(names)}"
    return CheckFailedError(
        text, why="each attention layer with an FP8 cache takes one scale for K and one for V", fix=fix
    )


def united(packs: Sequence[ScalePack]) -> dict[str, float]:
    """The scales of all packs; CheckFailedError where two set the same one."""
    scales: dict[str, float] = {}
    owners: dict[str, str] = {}
    for pack in packs:
        twice = [
            Rejected(name, f"{owners[name]} and {pack.artifact} both set it") for name in pack.scales if name in owners
        ]
        if twice:
            fix = "name each overlay once; calibrate once on the prompts of both where both shall count"
            raise check_failed(twice, where=pack.artifact, fix=fix)
        scales |= pack.scales
        owners |= dict.fromkeys(pack.scales, pack.artifact)
    return scales


def check_base(pack: ScalePack, index_sha256: str, tensors: Mapping[str, str]) -> None:
    """CheckFailedError unless the pack was measured on this base and the base has none of its names."""
    if pack.base_index_sha256 != index_sha256:
        raise CheckFailedError(
            "Base checkpoint revision does not match the scale pack",
            where=pack.artifact,
            why=f"the pack was measured on index {pack.base_index_sha256}, the checkpoint's is {index_sha256}",
            fix="use the checkpoint's revision that the pack names, or calibrate this one",
        )
    collisions = [
        Rejected(name, f"the base already has it, in {tensors[name]}") for name in pack.scales if name in tensors
    ]
    if collisions:
        raise check_failed(collisions, where=pack.artifact, fix="serve the base with its own scales: overlay=none")
