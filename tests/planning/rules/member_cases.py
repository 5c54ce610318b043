"""Cases of rules about the files of installed packages: see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.machine.facts import Member, Members
from toolkit.planning.plan import Severity

config, on_v100, machine = cases.config, cases.on_v100, cases.machine
LIBRARY, MODULE = "torch/lib/libtorch_cuda.so", "torch/nn/functional.py"
AGAIN = "install it again: pip install --force-reinstall --no-deps torch==2.10.0"
AGAIN_VLLM = "install it again: pip install --force-reinstall --no-deps vllm==0.32.0"
OF_VLLM = "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"
MISSING, CHANGED = "package-files-missing", "package-files-changed"
SIZE = "another size than was installed"


def gone(path, package="torch", version="2.10.0"):
    return Member(package, version, path, 7, None)


def other(path, package="torch", version="2.10.0"):
    return Member(package, version, path, 7, 8)


def has(*faults, made=machine, **changes):
    return made(members=Members(5000, faults, **changes))


CASES = [
    Case(MISSING, ("torch", f"of its files, 1 is gone: {LIBRARY}", AGAIN), config(), machine=has(gone(LIBRARY))),
    Case(
        MISSING,
        ("torch", f"of its files, 2 are gone: {MODULE} and others", AGAIN),
        on_v100(),
        machine=has(other("torch/x.py"), gone(MODULE), gone(LIBRARY)),
    ),
    Case(
        MISSING,
        ("vllm", f"of its files, 1 is gone: {OF_VLLM}", AGAIN_VLLM),
        config(),
        machine=has(gone(OF_VLLM, "vllm", "0.32.0")),
    ),
    Case(
        MISSING,
        ("vllm", "of its files, 1 is gone: vllm/envs.py", AGAIN_VLLM),
        on_v100(),
        machine=has(gone(OF_VLLM, "vllm", "0.32.0"), gone("vllm/envs.py", "vllm", "0.32.0")),
    ),
    Case(MISSING, None, on_v100(), machine=has(gone(OF_VLLM, "vllm", "0.32.0"))),
    Case(MISSING, None, config(), machine=has(other(LIBRARY))),
    waits(
        MISSING,
        "packages",
        "the installed packages' files were not looked at",
        config(),
        fix="run toolkit.doctor on the serving machine",
        machine=machine(members=None),
    ),
    Case(CHANGED, ("torch", f"of its files, 1 has {SIZE}: {MODULE}", AGAIN), config(), machine=has(other(MODULE))),
    Case(
        CHANGED,
        ("torch", f"of its files, 3 have {SIZE}: {MODULE} and others", AGAIN),
        config(),
        machine=has(other(MODULE), gone(LIBRARY), other("torch/a.py"), other("torch/b.py")),
    ),
    Case(
        CHANGED,
        ("vllm", f"of its files, 2 have {SIZE}: vllm/a.py and others", AGAIN_VLLM),
        on_v100(),
        machine=has(*(other(f"vllm/{name}", "vllm", "0.32.0") for name in ("_C.abi3.so", "a.py", "b.py"))),
    ),
    Case(CHANGED, None, on_v100(), machine=has(other(OF_VLLM, "vllm", "0.32.0"))),
    Case(CHANGED, None, config(), machine=has(gone(MODULE))),
    Case(CHANGED, None, config(), machine=machine(members=None)),
    Case(
        "package-files-unknown",
        ("triton", "its installer kept no record of its files", "install it with pip or uv"),
        config(),
        machine=has(without_record=("triton",)),
    ),
    Case(
        "package-files-unknown",
        ("triton", "time ran out before its files were compared", "run doctor again: it is faster then"),
        config(),
        machine=has(unread=("triton",)),
    ),
    Case("package-files-unknown", None, config()),
    Case("package-files-unknown", None, config(), machine=machine(members=None)),
]
SEVERITIES = {CHANGED: Severity.warn, "package-files-unknown": Severity.unchecked}
