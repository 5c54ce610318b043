"""From what the workers counted to scales: one for K and one for V of each attention layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolkit.calibration.distribution import Distribution, merged
from toolkit.checkpoint.faults import check_failed
from toolkit.errors import Rejected
from toolkit.planning.kv_measurement import Measurement
from toolkit.planning.worker_report import LayerKey, layer_key
from toolkit.views.scales.float32 import scale_fault, scale_of
from toolkit.views.scales.names import Place, ScaleNames, place_of


@dataclass(frozen=True)
class MeasuredScale:
    """One scale and what it was made from."""

    name: str
    """As the pack and the checkpoint name it."""
    key: LayerKey
    kind: str
    halves: tuple[Distribution, Distribution]

    @property
    def whole(self) -> Distribution:
        """All prompts."""
        return merged(self.halves)

    @property
    def scale(self) -> float:
        """The largest magnitude / 448, rounded up in FP32: nothing that was seen is clipped."""
        return scale_of(max(half.largest for half in self.halves))

    @property
    def ratio(self) -> float:
        """The larger half's maximum over the other's: 1 where the prompts are enough to know it."""
        small, large = sorted(half.largest for half in self.halves)
        return large / small if small else float("inf")

    @property
    def held_out(self) -> float:
        """The share (0..1) of each half that the other half's scale clips; the larger of the two."""
        first, second = self.halves
        return max(second.saturated(scale_of(first.largest)), first.saturated(scale_of(second.largest)))


def measured_scales(
    halves: Sequence[Sequence[Measurement]], names: ScaleNames, *, drafts: bool
) -> tuple[MeasuredScale, ...]:
    """The scales by layer. halves: each half's measurements, one of every worker. drafts: the plan runs the draft.

    Raises CheckFailedError where a layer stored infinities, NaN or nothing but zeros, or where the layers measured are
    not those of the checkpoint; each is named.
    """
    by_half = [_by_place(half) for half in halves]
    wanted = {place: name for name in names.target | (names.draft if drafts else set()) if (place := place_of(name))}
    faults = [*_unnamed(by_half, wanted), *_unmeasured(by_half, wanted)]
    if not faults:
        found = [_scale(name, place, by_half) for place, name in sorted(wanted.items())]
        faults = [fault for scale in found for fault in _faults(scale)]
    if faults:
        fix = "measure in a wider type, or look at the checkpoint: serving it with kv=float16 stores the same"
        raise check_failed(faults, where="measured keys and values", fix=fix)
    return tuple(found)


def _by_place(measurements: Iterable[Measurement]) -> Mapping[Place, Distribution]:
    """The ranks' distributions as one: with tensor parallelism each has other heads, with pipelines other layers."""
    gathered: dict[Place, list[Distribution]] = {}
    for measurement in measurements:
        for tally in measurement.tallies:
            key = layer_key(tally.layer)
            if key is not None:
                gathered.setdefault((key, tally.kind), []).append(Distribution(tally.largest, tally.bins))
    return {place: merged(parts) for place, parts in gathered.items()}


def _scale(name: str, place: Place, by_half: Sequence[Mapping[Place, Distribution]]) -> MeasuredScale:
    first, second = (half[place] for half in by_half)
    return MeasuredScale(name, *place, (first, second))


def _unnamed(by_half: Sequence[Mapping[Place, Distribution]], wanted: Mapping[Place, str]) -> Iterable[Rejected]:
    for key, kind in sorted({place for half in by_half for place in half} - wanted.keys()):
        layer = f"{'draft layer' if key.draft else 'layer'} {key.number}"
        yield Rejected(layer, f"its {kind.upper()} was measured, and the checkpoint has no such attention layer")


def _unmeasured(by_half: Sequence[Mapping[Place, Distribution]], wanted: Mapping[Place, str]) -> Iterable[Rejected]:
    for place, name in sorted(wanted.items()):
        if any(place not in half for half in by_half):
            yield Rejected(name, "no worker measured it")


def _faults(scale: MeasuredScale) -> Iterable[Rejected]:
    odd = scale.whole.not_finite
    if odd:
        yield Rejected(scale.name, f"{odd:,} of {scale.whole.count:,} values are infinite or NaN")
    elif fault := scale_fault(scale.scale):
        yield Rejected(scale.name, f"the scale {fault}; the largest magnitude is {scale.whole.largest:g}")
