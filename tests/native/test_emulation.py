"""The device code itself, thread by thread on the CPU: checks of tests/gpu on a machine without a GPU."""

import ctypes
import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from emulation.build import HERE, Maker, emulated  # noqa: E402

from kernels.checks.suite import cases  # noqa: E402
from toolkit.native.report.shapes import Shapes  # noqa: E402

EACH = 6
"""Cases of an operator that are run, evenly spread over those that it has."""
OTHERWISE = {"compact_rejection": 1, "topk_topp_support": 1, "shuffle_rows": 1000}
"""Few where cases have whole vocabularies; all where each takes another width of words."""
IN_PTX = {"kv_cache", "reshape_and_cache", "reshape_and_cache_flash"}


@pytest.fixture(scope="module")
def maker(root):
    from toolkit.native.toolchain import find, host_compiler

    compiler = host_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler here: apt-get install g++")
    toolchain = find(root, root / "build")
    folder = root / "build" / "emulation"
    return Maker(root / "kernels", toolchain.torch, toolchain.includes, compiler, folder)


def chosen(root):
    """Names of the cases to run: of operators that have a kernel, in a file without PTX."""
    operators = json.loads((root / "kernels" / "operators.json").read_text())["operators"]
    without = {name for name, operator in operators.items() if "kernels" not in operator} | IN_PTX
    families = {}
    for case in cases():
        families.setdefault(case.name.split("-")[0], []).append(case.name)
    for family, names in families.items():
        if family not in without:
            yield from names[:: -(-len(names) // OTHERWISE.get(family, EACH))]


def test_device_code_passes_its_checks(maker, root):
    names = list(chosen(root))
    assert len(names) > 100
    command = [sys.executable, str(HERE / "run.py"), str(maker.operators()), "20260101", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {"done": len(names), "failed": {}}


def test_declared_launches_are_those_that_the_host_code_computes(maker, root):
    shapes = Shapes.read(root / "kernels" / "shapes.yaml")
    lines = (root / "docs" / "evidence" / "static_report.jsonl").read_text().splitlines()
    works = {kernel: shapes.work(kernel) for kernel in (json.loads(line)["kernel"] for line in lines)}
    sizes = {kernel: dict(part.split("=") for part in work.shape.split()) for kernel, work in works.items()}
    command = [sys.executable, str(HERE / "launches.py"), str(maker.operators())]
    done = subprocess.run(command, input=json.dumps(sizes), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {kernel: [kernel, work.threads, work.blocks] for kernel, work in works.items()}
    assert len(works) > 100


def test_one_file_only_is_left_to_gpus(root):
    every = set((root / "kernels" / "cuda").glob("*.cu"))
    left = {path.name for path in every - set(emulated(root / "kernels"))}
    assert left == {"kv_cache.cu"}, "their cases belong into IN_PTX"


@pytest.fixture(scope="module")
def launch(maker):
    library = ctypes.CDLL(str(maker.faulty()))
    library.launch_faulty.restype = ctypes.c_char_p

    def call(name, blocks=1, threads=64):
        out = (ctypes.c_int * blocks)()
        return library.launch_faulty(name.encode(), blocks, threads, out).decode(), list(out)

    return call


def test_threads_see_what_others_of_their_warp_and_block_hold(launch):
    assert launch("adds_up", blocks=3, threads=96) == ("", [96 * 97 // 2] * 3)


@pytest.mark.parametrize(
    ("name", "threads", "fault"),
    [
        ("misses_a_lane", 64, "a lane has returned and is missing at a shuffle or a vote"),
        ("parts_ways", 64, "lanes are at different shuffles or votes"),
        ("waits_for_ever", 64, "threads wait for each other"),
        ("reaches_between", 64, "a misaligned access"),
        ("adds_up", 48, "a shuffle or a vote in a warp that is not whole"),
        ("adds_up", 1056, "a GPU does not take this launch"),
    ],
)
def test_a_fault_is_found(name, threads, fault, launch):
    assert launch(name, threads=threads)[0] == f"{name}: {fault}"
    assert launch("adds_up")[0] == ""
