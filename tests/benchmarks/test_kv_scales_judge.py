"""The benchmark's statistics with planted effects, and its reading of a cache's bytes."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from kv_scales_judge import (  # noqa: E402
    CALIBRATED,
    UNIT,
    Codes,
    calibrated_holds,
    claims,
    codes_of,
    judged,
    own_positions,
    paired,
    scaled_name,
)

PROMPTS = 32


def values(seed, shift=0.0, noise=0.002):
    """One value a prompt: prompts differ far more than arms do, as in reality."""
    prompt, own = random.Random(0), random.Random(seed)
    return [prompt.uniform(0.005, 0.05) + shift + own.gauss(0, noise) for _ in range(PROMPTS)]


@pytest.mark.parametrize(("shift", "verdict"), [(0.005, "worse"), (-0.005, "better")])
def test_a_planted_difference_is_found_beneath_that_of_prompts(shift, verdict):
    found = paired(values(1, shift), values(2), 0.95)
    assert found.verdict == verdict
    assert found.low < shift < found.high


def test_no_difference_is_called_none_as_often_as_the_level_says():
    """Without an effect 5 % of the verdicts are meant to be wrong; more than 22 of 200 then has a chance of 1:3000."""
    wrong = sum(paired(values(2 * n + 10), values(2 * n + 11), 0.95).verdict != "no different" for n in range(200))
    assert wrong <= 22


def test_the_same_numbers_are_no_different():
    found = paired(values(1), values(1), 0.95)
    assert (found.mean, found.low, found.high, found.verdict) == (0, 0, 0, "no different")


def test_a_higher_level_is_a_wider_interval():
    narrow, wide = (paired(values(1, 0.001), values(2), level) for level in (0.9, 0.999))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_beginning_that_all_prompts_share_is_nobody_s():
    """Or one chance in a shared token counts once a prompt, and a difference of nothing is called one."""
    sequences = [[1, 2, 3, 9], [1, 2, 4, 5, 6], [1, 2, 3, 3]]
    laid = [token for tokens in sequences for token in tokens]
    assert [laid[part] for part in own_positions(sequences)] == [[3, 9], [4, 5, 6], [3, 3]]
    assert own_positions([[1, 2], [3]]) == [slice(0, 2), slice(2, 3)]


def counts(layers):
    return torch.stack([torch.bincount(codes, minlength=256) for codes in layers])


def test_every_byte_is_counted_once_by_what_it_stands_for():
    """One of each byte but NaN: 2 zeros, 14 coarse, 2 at 448, of 254."""
    every = torch.arange(256, dtype=torch.uint8)
    every = every[(every & 0x7F) != 0x7F]
    found = codes_of(counts([every]), torch.float8_e4m3fn)
    assert found == Codes(448.0, 2 / 254, 14 / 254, 2 / 254)
    assert found.coarse == 16 / 254


def test_the_layer_with_the_smallest_largest_number_is_told():
    stored = [torch.tensor(numbers).to(torch.float8_e4m3fn).view(torch.uint8) for numbers in ([448.0, 1.0], [28.0, -7])]
    assert codes_of(counts(stored), torch.float8_e4m3fn).largest == 28.0


def test_e5m2_has_other_limits():
    stored = torch.tensor([57344.0, 2.0**-16, 2.0**-14, 0.0]).to(torch.float8_e5m2).view(torch.uint8)
    assert codes_of(counts([stored]), torch.float8_e5m2) == Codes(57344.0, 0.25, 0.25, 0.25)


@pytest.mark.parametrize(
    ("dtype", "byte"), [(torch.float8_e4m3fn, 0x7F), (torch.float8_e5m2, 0x7C), (torch.float8_e5m2, 0xFE)]
)
def test_what_no_cache_may_hold_is_refused(dtype, byte):
    with pytest.raises(ValueError, match="NaN or infinity"):
        codes_of(counts([torch.tensor([1, byte], dtype=torch.uint8)]), dtype)


def arm(seed, shift=0.0):
    return {"kl_by_prompt": values(seed, shift), "top1_by_prompt": values(seed + 50)}


GOOD = {kind: Codes(448.0, 0.00001, 0.001, 0.0001) for kind in "kv"}
COARSE = {kind: Codes(28.0, 0.0, 0.03, 0.002) for kind in "kv"}
CLIPPED = {kind: Codes(448.0, 0.2, 0.0, 0.0) for kind in "kv"}


def test_what_is_claimed_is_worked_out():
    large, small = scaled_name(16), scaled_name(1 / 16)
    arms = {CALIBRATED: arm(1), UNIT: arm(2), large: arm(3), small: arm(4, 5.0)}
    against = judged(arms)
    said = claims(arms, against, {CALIBRATED: GOOD, large: COARSE, small: CLIPPED})
    assert said[0].startswith("calibrated is not worse than unit scales beyond noise: its KL minus theirs is ")
    assert said[1].startswith("scales 16 times too large: KL no different (")
    assert said[1].endswith(
        "; keys reach 28 of 448; 3.20% of the keys are coarse or zero, not 0.11%"
        "; values reach 28 of 448; 3.20% of the values are coarse or zero, not 0.11%"
    )
    assert said[2].startswith("scales 16 times too small: KL worse (+4.9")
    assert "20.00% of the keys lie at the largest code, not 0.0010%" in said[2]
    assert calibrated_holds(against)


def test_the_other_outcomes_are_claimed_as_well():
    worse = {CALIBRATED: arm(1, 0.01), UNIT: arm(2)}
    assert not calibrated_holds(judged(worse))
    assert claims(worse, judged(worse), {})[0].startswith("calibrated is WORSE than unit scales beyond noise: its KL ")
    better = {CALIBRATED: arm(1), UNIT: arm(2, 0.01)}
    assert calibrated_holds(judged(better))
    assert claims(better, judged(better), {})[0].startswith("calibrated is better than unit scales beyond noise")
    same = {CALIBRATED: arm(1), UNIT: arm(2), scaled_name(4): arm(3)}
    said = claims(same, judged(same), {CALIBRATED: GOOD, scaled_name(4): GOOD})
    assert said[1].endswith("; its codes do not show it")
