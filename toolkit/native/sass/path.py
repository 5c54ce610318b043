"""The path through a kernel that a report counts: the shortest of those that do the most work.

Machine code alone does not say which way a branch goes. Work is what the kernel is for: bytes moved through global and
shared memory, products on tensor cores, and values converted into another floating-point type. So a bounds check is
passed, an optional argument is there, a value that may be absent is there too (zeros would need no conversion), and
code for rare values, which moves the same data with more instructions, is not entered; nor is a loop over them, however
few its instructions, since one round of it stands for all. A loop stands for one round through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from toolkit.native.sass.decode import Instruction
from toolkit.native.sass.flow import Block, Loop, blocks, loops, reachable

_TENSOR_WORK = 64  # as much as two 32-byte loads: enough that no path around the tensor cores wins


@dataclass(frozen=True)
class Path:
    """Instructions that are executed once, and the loops between them (each holds one round, and loops in turn)."""

    instructions: tuple[Instruction, ...]
    loops: tuple[Path, ...]

    def everything(self) -> tuple[Instruction, ...]:
        """All instructions, each loop gone through once."""
        return self.instructions + tuple(item for loop in self.loops for item in loop.everything())

    def all_loops(self) -> tuple[Path, ...]:
        """The loops and the loops inside them."""
        return tuple(found for loop in self.loops for found in (loop, *loop.all_loops()))


_Score = tuple[int, int, int]  # work; loops that do none, and instructions, both with a minus


def trace(instructions: Sequence[Instruction]) -> Path:
    """The path through a kernel from its first instruction to its end, subroutines that it calls included."""
    return _Tracer(blocks(instructions)).trace(instructions[0].address)


def work(instructions: Collection[Instruction]) -> int:
    """Bytes that a thread moves through global and shared memory.

    A tensor instruction counts as much as two loads, a conversion as one byte: less than any load or store.
    """
    moved = sum(item.width for item in instructions if item.operation not in {"LDC", "LDL", "STL", "SHFL"})
    operations = Counter(item.operation for item in instructions)
    return moved + _TENSOR_WORK * operations["HMMA"] + operations["F2F"]


def counts(instructions: Collection[Instruction]) -> Counter[str]:
    """How many instructions there are of each mnemonic."""
    return Counter(item.mnemonic for item in instructions)


class _Tracer:
    """One kernel's graph; subroutines are traced once."""

    def __init__(self, graph: dict[int, Block]) -> None:
        self._graph = graph
        self._traced: dict[int, Path] = {}

    def trace(self, entry: int) -> Path:
        if entry not in self._traced:
            self._traced[entry] = Path((), ())  # a subroutine that calls itself is counted once
            region = reachable(self._graph, entry)
            ends = {block for block in region if self._graph[block].leaves}
            self._traced[entry] = self._best(region, entry, ends or region, loops(self._graph, entry))
        return self._traced[entry]

    def _best(self, region: frozenset[int], entry: int, ends: Collection[int], inside: tuple[Loop, ...]) -> Path:
        """The best path from `entry` to one of `ends`, with the outermost of the loops `inside` as single steps."""
        outermost = [loop for loop in inside if not any(loop.body < other.body for other in inside)]
        step = {block: loop.header for loop in outermost for block in loop.body}
        paths = {block: self._block(block) for block in region if block not in step}
        for loop in outermost:
            deeper = tuple(other for other in inside if other.body < loop.body)
            paths[loop.header] = self._best(loop.body, loop.header, loop.latches, deeper)
        after = {block: set[int]() for block in paths}
        for block in region:
            source = step.get(block, block)
            for follower in self._graph[block].followers:
                target = step.get(follower, follower)
                if follower in region and target not in {source, entry}:
                    after[source].add(target)
        headers = {loop.header for loop in outermost}
        scores = {block: _score(path, is_loop=block in headers) for block, path in paths.items()}
        chosen = _heaviest(scores, after, step.get(entry, entry), {step.get(end, end) for end in ends})
        once = [paths[block] for block in chosen if block not in headers]
        return Path(
            instructions=tuple(item for path in once for item in path.instructions),
            loops=tuple(loop for path in once for loop in path.loops)
            + tuple(paths[block] for block in chosen if block in headers),
        )

    def _block(self, block: int) -> Path:
        instructions, inner = list(self._graph[block].instructions), list[Path]()
        for call in self._graph[block].instructions:
            if call.operation == "CALL" and call.target in self._graph:
                callee = self.trace(call.target)
                instructions += callee.instructions
                inner += callee.loops
        return Path(tuple(instructions), tuple(inner))


def _score(path: Path, *, is_loop: bool) -> _Score:
    everything = path.everything()
    loops_in_it = (path, *path.all_loops()) if is_loop else path.all_loops()
    idle = sum(work(loop.everything()) == 0 for loop in loops_in_it)
    return work(everything), -idle, -len(everything)


def _heaviest(scores: dict[int, _Score], after: dict[int, set[int]], entry: int, ends: set[int]) -> list[int]:
    """The steps of the best way from `entry` to one of `ends`; there is one."""
    best: dict[int, tuple[_Score, int | None]] = {}
    for step in _postorder(after, entry):
        options = [(best[follower][0], follower) for follower in after[step] if follower in best]
        score, follower = max(options, default=((0, 0, 0), -1))
        if not options and step not in ends:
            continue  # leads nowhere
        stays = step in ends and score <= (0, 0, 0)
        moved, idle, instructions = scores[step]
        total = (score[0] + moved, score[1] + idle, score[2] + instructions)
        best[step] = (total, None if stays or not options else follower)
    chosen, at = [], entry if entry in best else None
    while at is not None:
        chosen.append(at)
        at = best[at][1]
    return chosen


def _postorder(after: dict[int, set[int]], entry: int) -> list[int]:
    """Steps in an order in which each stands behind all that follow it."""
    order: list[int] = []
    seen, stack = {entry}, [(entry, iter(sorted(after[entry])))]
    while stack:
        step, rest = stack[-1]
        following = next((item for item in rest if item not in seen), None)
        if following is None:
            order.append(step)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(sorted(after[following]))))
    return order
