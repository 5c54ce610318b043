"""Everything that the report says about one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.native import container
from toolkit.native.elf.cubin import KernelCode, kernels
from toolkit.native.elf.image import Image
from toolkit.native.report.gpu import V100, Occupancy, occupancy
from toolkit.native.report.predict import Prediction, predict
from toolkit.native.report.shapes import Shapes, Work
from toolkit.native.sass import path
from toolkit.native.sass.decode import Instruction, decode

_UNNAMED = frozenset({"NOP", "BRA", "BSSY", "BSYNC"})


@dataclass(frozen=True)
class KernelReport:
    """One kernel.

    registers, barriers: of a thread, of a block.     shared: bytes a block, static and dynamic.
    local:     bytes of a thread that loads and stores of local memory move: spills, or arrays that need an address.
    code:      instructions in all.
    main_loop: instructions of one round through the loop that does most, by mnemonic; of the whole path without loops.
    work, occupancy, prediction: None where no shape is declared.
    """

    name: str
    registers: int
    barriers: int
    shared: int
    local: int
    code: int
    main_loop: dict[str, int]
    work: Work | None
    occupancy: Occupancy | None
    prediction: Prediction | None


def report(library: Path, shapes: Shapes) -> tuple[KernelReport, ...]:
    """The report on every sm_70 kernel of a library, by name. CheckFailedError if it has none that can be read."""
    data = Image.read(library).section(container.SECTION)
    if data is None:
        raise CheckFailedError("the library carries no device code container", where=str(library))
    cubins = [entry.data for entry in container.unpack(data) if entry.kind is container.Kind.CUBIN]
    return tuple(sorted((_report(kernel, shapes) for kernel in _kernels(cubins)), key=lambda item: item.name))


def _kernels(cubins: list[bytes]) -> Iterator[KernelCode]:
    for cubin in cubins:
        yield from kernels(cubin)


def _report(kernel: KernelCode, shapes: Shapes) -> KernelReport:
    try:
        instructions = decode(kernel.code)
    except CheckFailedError as error:
        raise CheckFailedError(error.what, where=f"{kernel.name}, {error.where}", fix=error.fix) from error
    counted, work = path.trace(instructions), shapes.work(kernel.name)
    shared = kernel.static_shared + (work.shared if work else 0)
    return KernelReport(
        name=kernel.name,
        registers=kernel.registers,
        barriers=kernel.barriers,
        shared=shared,
        local=max(kernel.stack, _local(instructions)),
        code=len(instructions),
        main_loop=main_loop(counted),
        work=work,
        occupancy=occupancy(V100, registers=kernel.registers, shared=shared, threads=work.threads) if work else None,
        prediction=predict(counted, work, V100) if work else None,
    )


def main_loop(counted: path.Path) -> dict[str, int]:
    """The instructions of the loop that does the most work, most frequent first; of the path, if it has no loop."""
    loop = max(counted.all_loops(), key=lambda item: path.work(item.everything()), default=counted)
    found = path.counts(loop.everything())
    return {name: count for name, count in found.most_common() if name not in _UNNAMED}


def _local(instructions: tuple[Instruction, ...]) -> int:
    return sum(item.width for item in instructions if item.operation in {"LDL", "STL"})
