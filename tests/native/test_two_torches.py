"""One wheel under the torch of both engines: the same library, byte for byte, passes the operators' checks.

`./quickstart setup engine=v100` makes the second environment, and `./quickstart test tests/native/test_two_torches.py`
runs this alone. test_operators.py runs every case in this process; torch 2.11 comes with a GPU (tests/gpu/run.py).
"""

import hashlib
import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from kernels.checks.suite import cases  # noqa: E402
from toolkit.native import load  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MEMBER = "toolkit/native/volta_native.so"
V100 = ROOT / ".venv-v100"
TORCH = {"cpu": "2.13.0", "v100": "2.10.0"}
FEW, ALL = "2", "100000"


def python(engine):
    """The interpreter of an engine, and its packages."""
    if engine == "cpu":
        return sys.executable, sysconfig.get_path("purelib")
    found = next(iter(V100.glob("lib/python*/site-packages/torch")), None)
    if found is None:
        pytest.skip("no .venv-v100 here: ./quickstart setup engine=v100")
    return str(V100 / "bin/python"), str(found.parent)


@pytest.fixture(scope="module")
def unpacked(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(built) as wheel:
        wheel.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def run(unpacked):
    def started(engine, each):
        interpreter, packages = python(engine)
        script = str(ROOT / "tests/native/wheel_cases.py")
        command = [interpreter, "-I", "-S", script, str(unpacked), each, packages]
        answer = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr[-3000:]
        return json.loads(answer.stdout)

    return started


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("engine", "each"), [("cpu", FEW), ("v100", ALL)])
def test_the_wheels_library_passes_the_operators_checks(engine, each, run, unpacked):
    found = run(engine, each)
    library = unpacked / MEMBER
    assert found["torch"].split("+")[0] == TORCH[engine]
    assert found["toolkit"] == str(unpacked / "toolkit/__init__.py")
    assert found["libraries"] == {str(library): hashlib.sha256(library.read_bytes()).hexdigest()}
    assert found["failed"] == {}
    every = {case.name for case in cases()}
    assert {name.split("-")[0] for name in found["cases"]} == {name.split("-")[0] for name in every}
    assert each == FEW or every == set(found["cases"])


def test_what_this_process_tests_is_the_wheels_library(unpacked):
    assert load().read_bytes() == (unpacked / MEMBER).read_bytes()
