"""Sending prompts to the served model, as many at a time as the server runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from toolkit.calibration.prompts import Prompt
from toolkit.checkpoint.progress import Progress
from toolkit.engine.http import Client, NoReplyError
from toolkit.errors import EngineError

NO_TIMEOUT_S = 86400.0
"""A long prompt takes minutes on a CPU; the engine's death ends its connections."""


class CancelledError(Exception):
    """The run is being stopped; nobody waits for an answer any more."""


@dataclass(frozen=True)
class Sizes:
    """What a request may take."""

    max_tokens: int
    """Tokens generated for a prompt, so that what decoding stores is measured as well."""
    max_model_len: int
    concurrency: int


@dataclass(frozen=True)
class Totals:
    """What was run."""

    prompts: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    cut: int = 0
    """Prompts that were longer than the server's context, of which the end was taken."""

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.prompts + other.prompts,
            self.prompt_tokens + other.prompt_tokens,
            self.generated_tokens + other.generated_tokens,
            self.cut + other.cut,
        )


def run_prompts(
    client: Client, prompts: Sequence[Prompt], sizes: Sizes, cancelled: threading.Event, progress: Progress
) -> Totals:
    """Run all prompts; greedy. EngineError where one gets no completion, CancelledError where nobody waits any more."""

    def run(prompt: Prompt) -> Totals:
        if cancelled.is_set():
            raise CancelledError
        totals = _run_one(client, prompt, sizes)
        progress.advance(prompt.size)
        return totals

    with ThreadPoolExecutor(sizes.concurrency, "prompts") as pool:
        return sum(pool.map(run, prompts), Totals())


def _run_one(client: Client, prompt: Prompt, sizes: Sizes) -> Totals:
    room = sizes.max_model_len - sizes.max_tokens
    body = {
        **prompt.to_data(),
        "model": client.address.model,
        "max_tokens": sizes.max_tokens,
        "temperature": 0,
        "truncate_prompt_tokens": room,
    }
    path = "/v1/completions" if prompt.text is not None else "/v1/chat/completions"
    try:
        reply = client.post(path, body, NO_TIMEOUT_S)
    except NoReplyError as error:
        raise EngineError("a prompt got no reply", where=f"{client.address.url}{path}", why=str(error)) from error
    data = reply.json()
    usage = data.get("usage") if reply.status == 200 and isinstance(data, dict) else None
    if not isinstance(usage, dict):
        what = f"the server answered {reply.status} instead of completing a prompt"
        raise EngineError(what, where=f"{client.address.url}{path}", why=reply.body[:300])
    tokens = int(usage["prompt_tokens"])
    return Totals(1, tokens, int(usage.get("completion_tokens") or 0), int(tokens >= room))
