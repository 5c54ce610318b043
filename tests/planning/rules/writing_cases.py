"""Cases of the rule about folders that the engine writes to: see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.machine.facts import COMPILED, TEMPORARY

config, on_v100 = cases.config, cases.on_v100
RULE = "folder-unwritable"
READ_ONLY = "/home/me/.cache is on a file system that is only read"
CACHES = dict.fromkeys(("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT"), "/fast")
ONE_LEFT = {name: CACHES[name] for name in list(CACHES)[:2]}


def gpus(**faults):
    return cases.gpu_machine(unwritable=faults)


def keeps(use, fault, variable):
    return (use, f"the engine cannot keep any: {fault}", f"make it writable, or set {variable} to a folder that is")


def moved(use, variable, made, faulty=True):
    """The shell's folder says nothing of the engine's, be it writable or not."""
    fact = f"the folder was looked for by the shell's {variable}, and the engine gets another or none"
    return waits(RULE, use, fact, made, machine=gpus(**{use: READ_ONLY} if faulty else {}))


COMPILES = keeps(COMPILED, READ_ONLY, "XDG_CACHE_HOME")
CASES = [
    Case(RULE, COMPILES, on_v100(), machine=gpus(**{COMPILED: READ_ONLY})),
    Case(RULE, COMPILES, on_v100(engine__environment=ONE_LEFT), machine=gpus(**{COMPILED: READ_ONLY})),
    Case(
        RULE,
        keeps(TEMPORARY, "/tmp is no folder", "TMPDIR"),
        config(),
        machine=gpus(**{TEMPORARY: "/tmp is no folder"}),
    ),
    moved(COMPILED, "XDG_CACHE_HOME", on_v100(engine__environment={"XDG_CACHE_HOME": "/scratch"})),
    moved(COMPILED, "HOME", on_v100(engine__environment={"HOME": "/scratch"})),
    moved(COMPILED, "XDG_CACHE_HOME", on_v100(engine__inherit=["HOME", "TMPDIR"])),
    moved(TEMPORARY, "TMPDIR", config(engine__environment={"TMPDIR": "/scratch"})),
    moved(TEMPORARY, "TMPDIR", config(engine__environment={"TMPDIR": "/scratch"}), faulty=False),
    moved(TEMPORARY, "TMPDIR", config(engine__inherit=["HOME"])),
    Case(RULE, None, on_v100(engine__environment=CACHES), machine=gpus(**{COMPILED: READ_ONLY})),
    Case(RULE, None, config(), machine=gpus(**{COMPILED: READ_ONLY})),
    Case(RULE, None, on_v100(), machine=gpus()),
    waits(
        RULE,
        "folders",
        "it is not known whether the engine can write to its folders",
        config(),
        machine=cases.machine(unwritable=None),
    ),
]
SEVERITIES = {}
