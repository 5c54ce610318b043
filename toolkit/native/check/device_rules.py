"""Rules about device code: what is declared is there, for the right GPU, and whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from toolkit.errors import CheckFailedError
from toolkit.native import container
from toolkit.native.check.finding import Finding
from toolkit.native.elf import device
from toolkit.native.elf.image import Image
from toolkit.native.info import Info, from_container
from toolkit.native.names import parse

ARCH = 70


def check_ours(image: Image) -> Iterator[Finding]:
    """Faults of our library: each operator that declares kernels has them in an sm_70 cubin, with PTX."""
    data = image.section(container.SECTION)
    if data is None:
        yield Finding("device-missing", image.name, "it carries no device code container", "invoke build")
        return
    try:
        entries = container.unpack(data)
        facts = from_container(data, image.name)
    except (CheckFailedError, ValueError, KeyError, TypeError) as error:
        yield Finding("device-container", image.name, str(error).splitlines()[0])
        return
    cubins = {entry.name: entry.data for entry in entries if entry.kind is container.Kind.CUBIN and entry.arch == ARCH}
    ptx = {entry.name: entry.data for entry in entries if entry.kind is container.Kind.PTX and entry.arch == ARCH}
    yield from _operators(image, facts, cubins, ptx)


def _operators(image: Image, facts: Info, cubins: dict[str, bytes], ptx: dict[str, bytes]) -> Iterator[Finding]:
    if not facts.operators:
        yield Finding("device-missing", image.name, "its manifest declares no operators")
    launching = [operator for operator in facts.operators if operator.device_code]
    for name in sorted({operator.device_code for operator in launching}):
        fault = device.cubin_fault(cubins[name], ARCH) if name in cubins else "it is missing"
        if fault is not None:
            yield Finding("device-cubin", image.name, f"the sm_{ARCH} cubin of {name} is unusable: {fault}")
        if f".target sm_{ARCH}".encode() not in ptx.get(name, b"") or not ptx[name].endswith(b"\0"):
            yield Finding("device-ptx", image.name, f"the compute_{ARCH} PTX of {name} is missing or unusable")
    for operator in launching:
        code = cubins.get(operator.device_code, b"")
        if device.cubin_fault(code, ARCH) is not None:
            continue
        if operator.kernels not in _operations(code):
            wanted = f"{operator.kernels}_*_sm{ARCH}"
            message = f"the operator {operator.name} has no kernel {wanted} in the cubin of {operator.device_code}"
            yield Finding("device-missing", image.name, message)


def _operations(cubin: bytes) -> Iterator[str]:
    """What a cubin has kernels for. Names are read in parts: one operation's may begin with another's."""
    for kernel in device.kernel_names(cubin):
        with suppress(ValueError):
            name = parse(kernel)
            if name.arch == ARCH:
                yield name.operation


def check_anyones(image: Image) -> Iterator[Finding]:
    """Whether a library with device code can run on a V100: it needs an sm_70 cubin, or PTX for 7.0 or older."""
    targets = device.targets(image)
    if not targets or any(runs_on_v100(target) for target in targets):
        return
    listed = ", ".join(str(target) for target in targets)
    yield Finding("no-sm70", image.name, f"it cannot run on a V100: it carries {listed}")


def runs_on_v100(target: device.Target) -> bool:
    """Whether a V100 takes this code: cubins of its own architecture, PTX of its own or an older one."""
    return target.arch == ARCH if target.kind == "cubin" else target.arch <= ARCH
