"""The proof's comparisons, on answers that are made up: what passes, and what is a fault."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.serving import smollm2
from tests.gpu.serving.judge import share
from tests.gpu.serving.speed import ratios


class Engine:
    """Finds each recorded token likeliest but for some, which it finds `nats` less likely than another."""

    def __init__(self, kv: str, wrong: int, nats: float) -> None:
        self._answers, self._left, self._nats = smollm2.recorded(kv), wrong, nats

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


@pytest.mark.parametrize("kv", smollm2.BOUNDS)
def test_an_engine_that_agrees_passes(kv: str) -> None:
    found = smollm2.against_record(Engine(kv, 0, 0.0), kv)
    tokens = smollm2.TOKENS * len(smollm2.PROMPTS)
    assert found == {
        "cpu_engine": {"tokens": tokens, "best": 1.0, "largest_shortfall_nats": 0.0, "equal_from_the_start": 1.0}
    }


def test_one_token_that_is_much_less_likely_is_a_fault_and_so_are_many_near_ties() -> None:
    assert "fault" not in smollm2.against_record(Engine("float16", 40, 0.0), "float16")
    assert "by 0.200 nats" in smollm2.against_record(Engine("float16", 8, 0.2), "float16")["fault"]
    assert "(at least 0.97)" in smollm2.against_record(Engine("float16", 100, 0.05), "float16")["fault"]


def test_the_record_holds_whole_answers() -> None:
    for kv in smollm2.BOUNDS:
        assert [answer["prompt"] for answer in smollm2.recorded(kv)] == list(smollm2.PROMPTS)
        assert {len(answer["token_ids"]) for answer in smollm2.recorded(kv)} == {smollm2.TOKENS}


def test_equal_tokens_count_up_to_the_first_difference() -> None:
    assert share([[1, 2, 3, 4], [5, 6, 7, 8]], [[1, 2, 0, 4], [5, 6, 7, 8]]) == 0.75
    assert smollm2.same_start([1, 2, 3], [1, 0, 3]) == 1
    assert smollm2.same_start([1, 2], [1, 2]) == 2


def test_ratios_are_of_medians_over_both_rounds() -> None:
    rows = [("ours", [10, 10, 90]), ("stock", [20, 20, 20]), ("stock", [20, 20, 20]), ("ours", [10, 10, 10])]
    rounds = [{"who": who, "tokens_per_s": {"one": values, "of_32": [1]}} for who, values in rows]
    assert ratios(rounds) == {"one": 0.5, "of_32": 1.0}
