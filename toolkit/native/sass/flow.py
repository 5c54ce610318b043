"""Control flow of one kernel: basic blocks, what leads where, and the loops that backward branches make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.native.sass.decode import SIZE, Instruction

_ENDS = frozenset({"EXIT", "RET", "KILL", "JMP", "JMX"})


@dataclass(frozen=True)
class Block:
    """Instructions that are executed one after the other, and the blocks that may follow, by address."""

    instructions: tuple[Instruction, ...]
    followers: tuple[int, ...]

    @property
    def leaves(self) -> bool:
        """Whether a thread may end, or return, behind this block."""
        return not self.followers


@dataclass(frozen=True)
class Loop:
    """A natural loop: the block that it is entered by, all its blocks, and those that branch back to the header."""

    header: int
    body: frozenset[int]
    latches: frozenset[int]


def blocks(instructions: Sequence[Instruction]) -> dict[int, Block]:
    """The basic blocks by address. A call does not end one; a computed branch may lead wherever nothing else leads."""
    starts = _starts(instructions)
    computed = sorted(starts - _reached(instructions, starts))
    found, current = {}, []
    for instruction in instructions:
        current.append(instruction)
        if instruction.address + SIZE in starts or instruction is instructions[-1]:
            found[current[0].address] = Block(tuple(current), _followers(instruction, starts, computed))
            current = []
    return found


def reachable(graph: dict[int, Block], entry: int) -> frozenset[int]:
    """Addresses of the blocks that can be reached from `entry` without calls."""
    seen, queue = {entry}, [entry]
    while queue:
        for follower in graph[queue.pop()].followers:
            if follower not in seen:
                seen.add(follower)
                queue.append(follower)
    return frozenset(seen)


def loops(graph: dict[int, Block], entry: int) -> tuple[Loop, ...]:
    """The loops that can be reached from `entry`, by header."""
    region = reachable(graph, entry)
    above = _dominators(graph, entry, region)
    latches: dict[int, set[int]] = {}
    for block in region:
        for follower in graph[block].followers:
            if follower in above[block]:
                latches.setdefault(follower, set()).add(block)
    before = _predecessors(graph, region)
    return tuple(Loop(header, _body(header, ends, before), frozenset(ends)) for header, ends in sorted(latches.items()))


def _starts(instructions: Sequence[Instruction]) -> set[int]:
    known = {instruction.address for instruction in instructions}
    starts = {instructions[0].address}
    for instruction in instructions:
        if instruction.target in known:
            starts.add(instruction.target)
        if instruction.operation in _ENDS | {"BRA", "BRX"} and instruction.address + SIZE in known:
            starts.add(instruction.address + SIZE)
    return starts


def _reached(instructions: Sequence[Instruction], starts: set[int]) -> set[int]:
    """Starts that a branch, a call or the instruction before leads to, and the entry."""
    found = {instructions[0].address} | {item.target for item in instructions if item.target is not None}
    for instruction in instructions:
        if _falls_through(instruction):
            found.add(instruction.address + SIZE)
    return found & starts


def _falls_through(instruction: Instruction) -> bool:
    return instruction.conditional or instruction.operation not in _ENDS | {"BRA", "BRX"}


def _followers(last: Instruction, starts: set[int], computed: list[int]) -> tuple[int, ...]:
    found = []
    if _falls_through(last) and last.address + SIZE in starts:
        found.append(last.address + SIZE)
    if last.operation == "BRA" and last.target in starts:
        found.append(last.target)
    if last.operation == "BRX":
        found += computed
    return tuple(dict.fromkeys(found))


def _predecessors(graph: dict[int, Block], region: frozenset[int]) -> dict[int, set[int]]:
    before: dict[int, set[int]] = {block: set() for block in region}
    for block in region:
        for follower in graph[block].followers:
            before[follower].add(block)
    return before


def _dominators(graph: dict[int, Block], entry: int, region: frozenset[int]) -> dict[int, frozenset[int]]:
    """For each block, the blocks that every way to it leads through (itself among them)."""
    before = _predecessors(graph, region)
    above = dict.fromkeys(region, region) | {entry: frozenset({entry})}
    changed = True
    while changed:
        changed = False
        for block in sorted(region - {entry}):
            common = frozenset.intersection(*(above[item] for item in before[block])) | {block}
            if common != above[block]:
                above[block], changed = common, True
    return above


def _body(header: int, latches: set[int], before: dict[int, set[int]]) -> frozenset[int]:
    body, queue = {header}, sorted(latches)
    while queue:
        block = queue.pop()
        if block not in body:
            body.add(block)
            queue += before[block]
    return frozenset(body)
