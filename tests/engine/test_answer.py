"""A broken model's output is told from an answer."""

import pytest

from toolkit.engine.answer import MODEL_CHECKS, RANDOM_CHECKS, Answer, faults, parse


def answer(text: str, tokens: tuple[str, ...] | None = None, logprobs: tuple | None = None) -> Answer:
    tokens = tuple(text.split()) if tokens is None else tokens
    return Answer("q", text, tokens, (-0.5,) * max(1, len(tokens)) if logprobs is None else logprobs, "stop", 0.1)


@pytest.mark.parametrize(
    "text",
    [
        "The capital of France is Paris.",
        "Paris",
        "no no no",
        "!",
        "Ha ha ha ha ha ha ha, very funny",
        "日本の首都は東京です。",
        "1 + 1 = 2",
    ],
)
def test_real_answers_pass(text):
    assert faults(answer(text), MODEL_CHECKS) == []


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (answer("", ()), "the answer is empty"),
        (answer(" \n\t "), "the answer is empty"),
        (answer("!" * 64, ("!",) * 64), "the answer is one character, '!', 64 times"),
        (answer("!!!!!!!!"), "the answer is one character, '!', 8 times"),
        (answer(" foo" * 20, (" foo",) * 20), "the answer is one token, ' foo', 20 times"),
        (answer("foo " * 20, ("f", "oo", " ") * 20), "the answer is one word, 'foo', 20 times"),
        (answer("fine", logprobs=()), "the answer has no log-probabilities, so NaN cannot be ruled out"),
        (answer("fine", logprobs=(None, -1.0)), "1 of 2 log-probabilities are not finite numbers"),
        (answer("fine", logprobs=(float("nan"),)), "1 of 1 log-probabilities are not finite numbers"),
        (answer("fine", logprobs=(-9999.0,)), "1 of 1 log-probabilities are not finite numbers"),
        (answer("fine", logprobs=(float("-inf"),)), "1 of 1 log-probabilities are not finite numbers"),
        (answer("fine", logprobs=("x",)), "1 of 1 log-probabilities are not finite numbers"),
    ],
)
def test_degenerate_answers_are_named(given, fault):
    assert faults(given, MODEL_CHECKS) == [fault]


def test_every_fault_is_listed():
    assert len(faults(answer("", (), ()), MODEL_CHECKS)) == 2


def test_random_weights_may_say_anything_but_nan():
    assert faults(answer("x" * 40), RANDOM_CHECKS) == []
    assert faults(answer("x" * 40, logprobs=(None,)), RANDOM_CHECKS) != []


def test_an_openai_completion_is_read():
    scored = [{"token": "Paris", "logprob": -0.1}]
    choice = {"message": {"content": "Paris"}, "logprobs": {"content": scored}, "finish_reason": "stop"}
    assert parse("q", {"choices": [choice]}, 0.5) == Answer("q", "Paris", ("Paris",), (-0.1,), "stop", 0.5)


def test_thoughts_count_where_there_is_no_content_yet():
    choice = {"message": {"content": None, "reasoning": "Let me think"}, "finish_reason": "length"}
    read = parse("q", {"choices": [choice]}, 0.5)
    assert (read.text, read.logprobs) == ("Let me think", ())


@pytest.mark.parametrize("reply", [None, [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [None]}, "text"])
def test_what_is_no_completion_is_none(reply):
    assert parse("q", reply, 0.1) is None
