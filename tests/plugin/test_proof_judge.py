"""The proof's comparisons, on answers that are made up: what passes, and what is a fault."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.serving import judge, smollm2
from tests.gpu.serving.judge import share
from tests.gpu.serving.speed import ratios


class Engine:
    """Finds each recorded token likeliest but for some, which it finds `nats` less likely than another."""

    def __init__(self, wrong: int, nats: float) -> None:
        self._answers, self._left, self._nats = smollm2.recorded("float16"), wrong, nats

    def complete(self, prompt: list[int], tokens: int) -> list[int]:
        answer = next(each for each in self._answers if each["prompt_token_ids"] == prompt)
        return list(answer["token_ids"][:tokens])

    def choice(self, asked: list[int], tokens: int, prompt_logprobs: int) -> dict[str, Any]:
        assert (tokens, prompt_logprobs) == (1, 1)
        return {"prompt_logprobs": [None, *(self._place(token) for token in asked[1:])]}

    def _place(self, token: int) -> dict[str, dict[str, float]]:
        self._left -= 1
        other = {"-1": {"logprob": -0.5}}
        nats = self._nats if self._left >= 0 else 0.0
        return other | {str(token): {"logprob": -0.5 - nats}}


def test_an_engine_that_agrees_passes() -> None:
    found = smollm2.against_record(Engine(0, 0.0))
    tokens = smollm2.TOKENS * len(smollm2.PROMPTS)
    assert found == {
        "cpu_engine": {"tokens": tokens, "best": 1.0, "largest_shortfall_nats": 0.0, "equal_from_the_start": 1.0}
    }


def test_one_token_that_is_much_less_likely_is_a_fault_and_so_are_many_near_ties() -> None:
    assert "fault" not in smollm2.against_record(Engine(40, 0.0))
    assert "by 0.200 nats" in smollm2.against_record(Engine(8, 0.2))["fault"]
    assert "(at least 0.97)" in smollm2.against_record(Engine(100, 0.05))["fault"]


def test_the_record_holds_whole_answers() -> None:
    for kv in smollm2.CACHES:
        assert [answer["prompt"] for answer in smollm2.recorded(kv)] == list(smollm2.PROMPTS)
        assert {len(answer["token_ids"]) for answer in smollm2.recorded(kv)} == {smollm2.TOKENS}


def test_float16_bounds_are_on_the_share_of_the_best_and_on_the_largest_shortfall() -> None:
    bounds = {"best": judge.BEST, "worst": judge.WORST}
    assert "fault" not in judge.verdict([0.0] * 95 + [0.05] * 5, **bounds)
    assert judge.verdict([0.0] * 94 + [0.05] * 6, **bounds)["fault"] == (
        "share of the reference's best 0.9400 (at least 0.9500)"
    )
    assert judge.verdict([0.0] * 99 + [0.06], **bounds)["fault"] == "largest shortfall in nats 0.0600 (at most 0.0500)"


def test_fp8_bounds_follow_the_noise_that_was_seen() -> None:
    noise = [0.0] * 90 + [0.1] * 10  # mean 0.01, standard deviation 0.03
    allowed = judge.MEAN + 2 * 0.01 + 4 * 0.03 / 10
    found = judge.beside_noise([0.3] * 11 + [0.0] * 89, noise, 0.3)
    assert found["float16_noise"]["mean_allowed_nats"] == pytest.approx(allowed)
    assert "fault" not in found
    assert "mean shortfall" in judge.beside_noise([0.3] * 12 + [0.0] * 88, noise, 0.3)["fault"]
    assert "largest shortfall" in judge.beside_noise([0.36] + [0.0] * 99, noise, 0.3)["fault"]


def test_equal_tokens_count_up_to_the_first_difference() -> None:
    assert share([[1, 2, 3, 4], [5, 6, 7, 8]], [[1, 2, 0, 4], [5, 6, 7, 8]]) == 0.75
    assert smollm2.same_start([1, 2, 3], [1, 0, 3]) == 1
    assert smollm2.same_start([1, 2], [1, 2]) == 2


def test_ratios_are_of_medians_over_both_rounds() -> None:
    rows = [("ours", [10, 10, 90]), ("stock", [20, 20, 20]), ("stock", [20, 20, 20]), ("ours", [10, 10, 10])]
    rounds = [{"who": who, "tokens_per_s": {"one": values, "of_32": [1]}} for who, values in rows]
    assert ratios(rounds) == {"one": 0.5, "of_32": 1.0}
