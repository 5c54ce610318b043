"""The built-in set of prompts: several languages, code, numbers, chat, oddities and long context.

Made from texts.json by arithmetic alone, so that every machine makes the same bytes; the SHA-256 is pinned here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.calibration.prompts import Prompt, PromptSet, jsonl

NAME = "mixed-1"
SHA256 = "7ec46b7d3eef71564ad6ed50bc3c8b9f30c60330b34ff52ec29dcca92599b256"

TEXTS = Path(__file__).with_name("texts.json")

LONG = (1500, 1500, 3000, 3000, 6000, 6000, 12000, 12000, 24000, 24000)
"""Words of the long prompts, in pairs: one for each half."""
TOWNS = ("Bergen", "Cádiz", "Dresden", "Évora", "Fukuoka", "Graz", "Huế", "İzmir", "Jaipur", "Kraków", "洛阳")
THINGS = ("lamp", "ledger", "compass", "kettle", "map", "violin", "anchor", "loom", "letter", "clock", "bell")


@dataclass(frozen=True)
class Texts:
    """What the prompts are made of; written for this purpose."""

    prose: Sequence[tuple[str, str]]
    """A language's name, and a paragraph in it."""
    code: Sequence[tuple[str, str]]
    """A language's name, and a piece of code in it."""
    questions: Sequence[str]
    oddities: Sequence[str]
    """What real users also send."""


class Draw:
    """Numbers that look random and are the same everywhere: SHA-256 of a counter."""

    def __init__(self, seed: str) -> None:
        self._seed, self._count = seed, 0

    def below(self, limit: int) -> int:
        """The next number of 0..limit-1."""
        self._count += 1
        digest = hashlib.sha256(f"{self._seed}/{self._count}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % limit


def builtin_prompts() -> PromptSet:
    """The set, for every model: prompts that are longer than a server's context are cut by it."""
    prompts = tuple(_prompts(_texts()))
    return PromptSet(f"built-in {NAME}", hashlib.sha256(jsonl(prompts)).hexdigest(), prompts)


def _texts() -> Texts:
    data = json.loads(TEXTS.read_text(encoding="utf-8"))
    prose, code = ([(item["language"], item["text"]) for item in data[kind]] for kind in ("prose", "code"))
    return Texts(prose, code, data["questions"], data["oddities"])


def _prompts(texts: Texts) -> Iterator[Prompt]:
    """In an order in which both halves, the even and the odd ones, get some of each kind."""
    for question in texts.questions:
        yield _chat(question)
    for number, (language, text) in enumerate(texts.prose):
        chat = _chat(f"This is {language}. Summarise it in English, then continue it in {language}:\n\n{text}")
        yield from (Prompt(text), chat) if number % 2 else (chat, Prompt(text))
    for number, (language, text) in enumerate(texts.code):
        chat = _chat(f"Explain this {language} line by line, then improve it:\n\n```\n{text}\n```")
        yield from (Prompt(text), chat) if number % 2 else (chat, Prompt(text))
    for text in texts.oddities:
        yield Prompt(text)
    for number in range(6):
        yield Prompt(_table(Draw(f"table {number}"), 40))
    for number, words in enumerate(LONG):
        yield _long(texts, Draw(f"long {number}"), words)


def _chat(content: str) -> Prompt:
    return Prompt(messages=({"role": "user", "content": content},))


def _table(draw: Draw, rows: int) -> str:
    """Numbers of very different sizes and signs, as a table that asks to be continued."""
    lines = ["| run | count | share | offset | hash |", "|---|---|---|---|---|"]
    for row in range(rows):
        count, share = draw.below(10 ** (1 + draw.below(9))), draw.below(100000) / 1000
        offset = (draw.below(2000001) - 1000000) / 10 ** draw.below(7)
        lines.append(f"| {row + 1} | {count:,} | {share:.3f} % | {offset:g} | {draw.below(1 << 48):012x} |")
    return "\n".join(lines)


def _long(texts: Texts, draw: Draw, words: int) -> Prompt:
    """Numbered notes in all languages with facts among them, and a question about one of the facts."""
    notes: list[str] = []
    facts = [_fact(draw)]
    length = 0
    while length < words:
        note = _note(texts, draw, facts)
        notes.append(f"[{len(notes) + 1}] {note}")
        length += max(len(note.split()), len(note) // 6)
    thing, town = facts[draw.below(len(facts))]
    last = f"[{len(notes) + 1}] The {thing} was last seen in {town}."
    return _chat("\n\n".join([*notes, last, f"In which town was the {thing} last seen? Name the note and quote it."]))


def _note(texts: Texts, draw: Draw, facts: list[tuple[str, str]]) -> str:
    kind = draw.below(4)
    if kind == 0:
        facts.append(_fact(draw))
        return "The {} was last seen in {}.".format(*facts[-1])
    if kind == 1:
        return texts.code[draw.below(len(texts.code))][1]
    if kind == 2:
        return _table(draw, 3)
    return texts.prose[draw.below(len(texts.prose))][1]


def _fact(draw: Draw) -> tuple[str, str]:
    return f"{THINGS[draw.below(len(THINGS))]} number {100 + draw.below(9900)}", TOWNS[draw.below(len(TOWNS))]
