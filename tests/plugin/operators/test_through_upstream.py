"""The native library's checks, with its operators called by upstream's names, under the torch of both engines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.plugin.operators.states import SAME

HERE = Path(__file__).parent
PYTHONS = {"cpu": Path(sys.executable), "v100": HERE.parents[2] / ".venv-v100/bin/python"}
ON_A_GPU_ONLY = "_C::get_cuda_view_from_cpu_tensor"


@pytest.mark.parametrize("engine", PYTHONS)
def test_an_operator_of_ours_passes_its_checks_by_upstreams_name(engine: str, library: Path) -> None:
    if not PYTHONS[engine].exists():
        pytest.skip("no .venv-v100 here: ./quickstart setup engine=v100")
    assert library.is_file()
    command = [str(PYTHONS[engine]), str(HERE / "through_upstream.py"), "4"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert answer.returncode == 0, answer.stderr[-3000:]
    found = json.loads(answer.stdout)
    assert found["failed"] == {}
    assert found["called"] == sorted({*SAME} - {ON_A_GPU_ONLY})
