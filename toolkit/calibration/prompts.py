"""A set of prompts: what calibration runs, pinned by its SHA-256."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.checkpoint.strict_json import StrictJsonError, parse_object
from toolkit.errors import CheckFailedError, ConfigurationError

BYTES_A_TOKEN = 8
"""More than a token of any tokenizer takes on average, so that what is left out is certainly too long."""

_FORM = 'a line is {"prompt": TEXT} or {"messages": [{"role": ROLE, "content": TEXT}, ...]}'


@dataclass(frozen=True)
class Prompt:
    """A text to continue, or a chat to answer; exactly one of the two is set."""

    text: str | None = None
    messages: tuple[Mapping[str, str], ...] = ()

    def to_data(self) -> dict[str, Any]:
        """The prompt as a line of a JSONL file holds it."""
        return {"prompt": self.text} if self.text is not None else {"messages": [dict(item) for item in self.messages]}

    @property
    def size(self) -> int:
        """Bytes of its text in UTF-8."""
        texts = [self.text] if self.text is not None else [item["content"] for item in self.messages]
        return sum(len(text.encode()) for text in texts)


@dataclass(frozen=True)
class PromptSet:
    """Prompts in order, and their name."""

    source: str
    """`built-in NAME`, or a file's path."""
    sha256: str
    """Of the file; of the JSONL text that the built-in set makes."""
    prompts: tuple[Prompt, ...]
    left_out: int = 0
    """Prompts of the set that are not run, as a shorter one fills the context already."""

    def within(self, max_model_len: int) -> PromptSet:
        """The set without prompts that are far longer than the context, which would only be cut to its length."""
        limit = BYTES_A_TOKEN * max_model_len
        kept = tuple(prompt for prompt in self.prompts if prompt.size <= limit)
        return replace(self, prompts=kept, left_out=len(self.prompts) - len(kept))

    @property
    def halves(self) -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
        """Every second prompt: two sets of the same kind, whose measurements ought to agree."""
        return self.prompts[::2], self.prompts[1::2]


def jsonl(prompts: Iterable[Prompt]) -> bytes:
    """The prompts as a JSONL file."""
    lines = (json.dumps(prompt.to_data(), ensure_ascii=False, sort_keys=True) + "\n" for prompt in prompts)
    return "".join(lines).encode()


def read_prompts(path: Path) -> PromptSet:
    """A user's JSONL file; ConfigurationError names the first line that is no prompt."""
    try:
        data = path.read_bytes()
        lines = data.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigurationError(
            "the prompts cannot be read", where=str(path), why=why, fix="set prompts=FILE"
        ) from error
    prompts = tuple(_prompt(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip())
    if len(prompts) < 2:
        why = f"it holds {len(prompts)}, and calibration compares two halves"
        raise ConfigurationError("too few prompts", where=str(path), why=why, fix=_FORM)
    return PromptSet(str(path), hashlib.sha256(data).hexdigest(), prompts)


def check_pin(prompts: PromptSet, sha256: str | None) -> None:
    """CheckFailedError unless the set is the one that the configuration pins."""
    if sha256 not in (None, prompts.sha256):
        raise CheckFailedError(
            "the prompts are not those that prompts_sha256 pins",
            where=prompts.source,
            why=f"they have {prompts.sha256}, {sha256} is demanded",
            fix="take the set that the pin means, or pin this one",
        )


def _prompt(line: str, where: str) -> Prompt:
    try:
        data = parse_object(line.encode())
    except StrictJsonError as error:
        raise ConfigurationError("a prompt is no JSON object", where=where, why=str(error), fix=_FORM) from None
    text, messages = data.get("prompt"), data.get("messages")
    if data.keys() == {"prompt"} and isinstance(text, str) and text:
        return Prompt(text)
    if data.keys() == {"messages"} and isinstance(messages, list) and messages and _are_messages(messages):
        return Prompt(messages=tuple(messages))
    raise ConfigurationError("a prompt is neither a text nor a chat", where=where, fix=_FORM)


def _are_messages(messages: Sequence[Any]) -> bool:
    return all(
        isinstance(item, dict)
        and item.keys() == {"role", "content"}
        and all(isinstance(part, str) for part in item.values())
        for item in messages
    )
