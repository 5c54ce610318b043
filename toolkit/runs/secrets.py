"""Leaving secrets out of everything that is written down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

LEFT_OUT = "<left out>"
SECRET_NAME = re.compile(r"(^|_)(KEY|TOKEN|PASS|AUTH|COOKIE)(_|$)|API_?KEY|SECRET|PASSW(OR)?D|CREDENTIAL", re.I)
"""Names of variables whose values are left out; TOKENS and TOKENIZERS, which count and cut text, are not among them."""
SECRET_FLAG = re.compile(r"--(api-key|hf-token|[\w-]*(secret|password|token))", re.I)
SECRET_SHAPE = re.compile(
    r"\b(hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16})\b"
    r"|(?<=://)[^/@\s]+(?=@)"
)
"""Well-known tokens, and the user part of a URL."""
SHORTEST = 8
"""A shorter value is left out where its name is known, but not searched for in other texts: it would hit by chance."""


def secret_values(
    environments: Iterable[Mapping[str, str]], key: str | None, argv: Sequence[str] = ()
) -> frozenset[str]:
    """Every value that must not be written down: of variables with a secret's name, of flags, and the API key."""
    found = {value for env in environments for name, value in env.items() if SECRET_NAME.search(name)}
    found |= {value for _, value in _flag_values(argv)}
    if key is not None:
        found.add(key)
    return frozenset(value for value in found if len(value) >= SHORTEST)


def without_secrets(data: Any, secrets: frozenset[str]) -> Any:
    """Plain data with every secret replaced by LEFT_OUT: known values anywhere, and any value with a secret's name."""
    if isinstance(data, Mapping):
        return {key: _named(str(key), value, secrets) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        clean = [without_secrets(item, secrets) for item in data]
        for position, _ in _flag_values(data):
            clean[position] = clean[position].partition("=")[0] + "=" + LEFT_OUT if "=" in data[position] else LEFT_OUT
        return clean
    return _text(data, secrets) if isinstance(data, str) else data


def left_out(data: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys of the values that were left out."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from left_out(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(data, (list, tuple)):
        for number, item in enumerate(data):
            yield from left_out(item, f"{prefix}[{number}]")
    elif isinstance(data, str) and LEFT_OUT in data:
        yield prefix


def _named(name: str, value: Any, secrets: frozenset[str]) -> Any:
    # Only upper-case names: those are variables, while keys such as api_key_file and max_tokens are our own.
    if isinstance(value, str) and value and name.isupper() and SECRET_NAME.search(name):
        return LEFT_OUT
    return without_secrets(value, secrets)


def _text(text: str, secrets: frozenset[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, LEFT_OUT)
    return SECRET_SHAPE.sub(LEFT_OUT, text)


def _flag_values(argv: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Position and text of every argument that is, or carries, a secret flag's value."""
    for position, item in enumerate(argv):
        flag, equals, value = str(item).partition("=")
        if SECRET_FLAG.fullmatch(flag):
            if equals:
                yield position, value
            elif position + 1 < len(argv):
                yield position + 1, str(argv[position + 1])
