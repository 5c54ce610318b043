"""A model's answer, and the checks that tell an answer from the output of a broken model.

Broken kernels and wrong scales rarely crash: they give NaN logits, which decode to token 0 for ever (`!!!!`), or the
same few tokens in a loop. A server in that state is up and healthy, and useless.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

TEXT_PARTS = ("reasoning", "reasoning_content", "content")
"""A model that thinks first may have spent all its tokens on that; its thoughts show as well that it works."""
REPEATS = 8
"""One token or character this often, with nothing else beside it, is no answer."""
NAN_STANDS_FOR = -9999.0
"""vLLM writes this where a log-probability is not a finite number, as JSON has none."""
ROUNDING = 1e-3
"""A log-probability is at most 0, but for the rounding of a softmax in low precision."""


@dataclass(frozen=True)
class Answer:
    """One chat completion."""

    question: str
    text: str
    tokens: tuple[str, ...]
    logprobs: tuple[float | None, ...]
    """Natural logarithm of each token's probability; None where the server gave null."""
    finish_reason: str
    seconds: float


Check = Callable[[Answer], str | None]
"""What is wrong with an answer, or None."""


def parse(question: str, reply: Any, seconds: float) -> Answer | None:
    """The answer in an OpenAI chat completion, `seconds` after its question; None where the reply is not one."""
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        scored = (choice.get("logprobs") or {}).get("content") or []
        text = "".join(str(message[part]) for part in TEXT_PARTS if message.get(part))
        return Answer(
            question=question,
            text=text,
            tokens=tuple(str(entry["token"]) for entry in scored),
            logprobs=tuple(entry.get("logprob") for entry in scored),
            finish_reason=str(choice.get("finish_reason")),
            seconds=seconds,
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        return None


def empty(answer: Answer) -> str | None:
    """No text at all."""
    return None if answer.text.strip() else "the answer is empty"


def repeated(answer: Answer) -> str | None:
    """One character or one token, over and over."""
    text = answer.text.strip()
    if len(text) >= REPEATS and len(set(text)) == 1:
        return f"the answer is one character, {text[0]!r}, {len(text)} times"
    if len(answer.tokens) >= REPEATS and len(set(answer.tokens)) == 1:
        return f"the answer is one token, {answer.tokens[0]!r}, {len(answer.tokens)} times"
    words = text.split()
    if len(words) >= REPEATS and len(set(words)) == 1:
        return f"the answer is one word, {words[0]!r}, {len(words)} times"
    return None


def not_finite(answer: Answer) -> str | None:
    """Log-probabilities that are missing, NaN or infinite."""
    if not answer.logprobs:
        return "the answer has no log-probabilities, so NaN cannot be ruled out"
    wrong = sum(1 for value in answer.logprobs if not _finite(value))
    return f"{wrong} of {len(answer.logprobs)} log-probabilities are not finite numbers" if wrong else None


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and NAN_STANDS_FOR < value <= ROUNDING


MODEL_CHECKS: tuple[Check, ...] = (not_finite, empty, repeated)
"""For a trained model."""
RANDOM_CHECKS: tuple[Check, ...] = (not_finite,)
"""For random weights, whose text means nothing."""


def faults(answer: Answer, checks: Sequence[Check]) -> list[str]:
    """Everything that is wrong with an answer."""
    return [fault for check in checks if (fault := check(answer)) is not None]
