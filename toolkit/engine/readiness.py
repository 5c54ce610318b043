"""Asking a started server, step by step, whether it is the planned one and really answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.engine.answer import Answer, Check, faults, parse
from toolkit.engine.http import Client, NoReplyError, Reply
from toolkit.errors import EngineError
from toolkit.planning.plan import ANSWER_TOKENS

POLL_S = 0.05
HEALTH_TIMEOUT_S = 2.0
NO_TIMEOUT_S = 86400.0
"""A first answer may take minutes while kernels compile; the event loop's deadline knows whether there is progress."""


@dataclass(frozen=True)
class Question:
    """What the server is asked, and what its answer must pass."""

    text: str
    checks: Sequence[Check]


def wait_healthy(client: Client, cancelled: threading.Event) -> bool:
    """Poll /health until it answers 200; False when cancelled."""
    while not cancelled.is_set():
        try:
            if client.get("/health", HEALTH_TIMEOUT_S).status == 200:
                return True
        except NoReplyError:
            pass
        cancelled.wait(POLL_S)
    return False


def check_model(client: Client) -> None:
    """See that the server has the planned model.

    Raises:
        EngineError: it refuses the key, or serves something else.
    """
    url, model = client.address.url, client.address.model
    try:
        reply = client.get("/v1/models", NO_TIMEOUT_S)
    except NoReplyError as error:
        what = "the server does not say which models it has"
        raise EngineError(what, where=f"{url}/v1/models", why=str(error)) from error
    if reply.status in (401, 403):
        why = f"it answered {reply.status} to the key in {client.address.api_key_file or 'no key file'}"
        fix = "another server may hold this port: choose another server.port, or stop that one"
        raise EngineError("the server refuses our API key", where=f"{url}/v1/models", why=why, fix=fix)
    names = _model_names(reply)
    if model not in names:
        why = f"it serves {', '.join(names)}" if names else f"it answered {reply.status}: {_short(reply.body)}"
        fix = "choose another server.port, or stop that server"
        raise EngineError(f"a different server answers: {model} is not among its models", where=url, why=why, fix=fix)


def ask(client: Client, question: Question) -> Answer:
    """Have the model answer, and check the answer.

    Raises:
        EngineError: there is no answer, or it is what a broken model gives.
    """
    where, started = f"{client.address.url}/v1/chat/completions", time.monotonic()
    try:
        reply = client.post("/v1/chat/completions", _body(client.address.model, question.text), NO_TIMEOUT_S)
    except NoReplyError as error:
        raise EngineError("the server is up but does not answer", where=where, why=str(error)) from error
    answer = parse(question.text, reply.json(), time.monotonic() - started) if reply.status == 200 else None
    if answer is None:
        raise EngineError(
            f"the server answered {reply.status} instead of a completion",
            where=where,
            why=_explain(reply),
        )
    if wrong := faults(answer, question.checks):
        raise EngineError(
            "the model's output is degenerate: " + "; ".join(wrong),
            where=where,
            why=f"to {question.text!r} it said {_short(answer.text)!r}",
            fix="the weights, the KV scales or a kernel are wrong: try switches=all_off, kv=float16 and overlay=none",
        )
    return answer


def _body(model: str, question: str) -> Mapping[str, Any]:
    message = {"role": "user", "content": question}
    return {"model": model, "messages": [message], "max_tokens": ANSWER_TOKENS, "temperature": 0, "logprobs": True}


def _model_names(reply: Reply) -> list[str]:
    listing = reply.json()
    entries = listing.get("data") if isinstance(listing, dict) else None
    return [str(entry.get("id")) for entry in entries or [] if isinstance(entry, dict)]


def _explain(reply: Reply) -> str:
    if "JSON compliant" in reply.body or "NaN" in reply.body:
        return f"its numbers are NaN or infinite: {_short(reply.body)}"
    return _short(reply.body)


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
