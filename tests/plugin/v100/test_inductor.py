"""What torch.compile writes between a layer's products compiles for sm_70, as vLLM's own Triton kernels do."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Run

SHARED = 98304


def test_the_kernels_that_torch_compile_writes_are_for_sm_70_and_fit_a_block(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "kernels.json"
    answer = run("inductor_sm70", str(file), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"))
    assert answer.returncode == 0, answer.stderr[-3000:]
    made = json.loads(file.read_text(encoding="utf-8"))
    assert {row["case"] for row in made} == {"norm", "gate", "rotary embedding", "probabilities"}
    assert {row["target"] for row in made} == {70}
    assert [row for row in made if row["shared"] > SHARED or row["foreign"]] == []
