"""The cases of the proof on a GPU, planned without one: none is refused but those that shall be."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

sys.path.insert(0, str(Path(__file__).parents[1] / "config"))
sys.path.insert(0, str(Path(__file__).parents[1] / "planning"))
import cases as planning
from composing import compose

from tests.gpu.serving import prove
from tests.gpu.serving.cases import CASES, Case
from tests.gpu.serving.families import DRAFTS
from tests.gpu.serving.models import auto_class, configuration
from tests.gpu.serving.one import Place
from tests.gpu.serving.record import Record
from tests.gpu.serving.server import WITHOUT_MULTICAST, overrides
from tests.gpu.serving.stock import stock_argv
from toolkit.checkpoint.facts import TensorFacts
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Plan, Severity

MEMORY = 141 * 2**30
JOBS = 8


def config_of(family: str) -> dict[str, Any]:
    if family == "smollm2":
        return planning.shipped("smollm2").config
    target, layers = DRAFTS.get(family, (family, None))
    config = configuration(target).to_dict()
    words = {"qwen3_5": "Qwen3_5ForConditionalGeneration"}
    config["architectures"] = [words.get(target, f"{target.title().replace('_', '')}ForCausalLM")]
    return config if layers is None else {**config, "num_hidden_layers": layers}


@cache
def facts_of(family: str) -> Any:
    """The checkpoint's, with the tensors of transformers' model in float16, and the next-token head's projection."""
    config = config_of(family)
    known = AutoConfig.for_model(**config)
    with torch.device("meta"):
        shapes = {name: tuple(value.shape) for name, value in auto_class(known).from_config(known).state_dict().items()}
    shapes["mtp.fc.weight"] = (1024, 2048)
    tensors = {
        name: TensorFacts(name, "F16", shape, 2 * math.prod(shape), "model.safetensors")
        for name, shape in shapes.items()
    }
    return planning.facts(name=family, config=config, tensors=tensors)


def plan_of(case: Case, jobs: int) -> Plan:
    """The plan beside jobs - 1 servers, each of which has all of its share."""
    place = Place(Path("/models"), Path("/logs"), prove.PORT, prove.WHOLE / jobs)
    config = compose(*overrides(case, place), verb="serve").config
    free = int(MEMORY * (1 - place.share * (jobs - 1)))
    cards = tuple(planning.v100(index, memory_bytes=MEMORY, free_bytes=free) for index in range(case.gpus))
    machine = planning.gpu_machine(gpus=cards, links=planning.links(case.gpus))
    return make_plan(config, "", facts_of(case.family), machine, facts_of(case.draft) if case.draft else None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_rule_refuses_what_shall_be_served(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for jobs in (1, JOBS):
        against = {each.rule for each in plan_of(case, jobs).findings if each.severity is Severity.refuse}
        assert against >= set(case.checks) if case.against == "refused" else against == set()


@pytest.mark.parametrize("case", [case for case in CASES if case.gpus > 1], ids=lambda case: case.name)
def test_engines_on_several_gpus_leave_multicast_alone(case: Case) -> None:
    assert plan_of(case, 1).env.items() >= WITHOUT_MULTICAST.items()


def test_names_are_unique_and_choose_by_their_parts() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)

    def chosen(*words: str) -> list[Case]:
        args = prove.parsed(["--smollm2", "x", *words])
        return prove.wanted(args, Record(None, names))

    assert {case.suite for case in chosen()} == {"families", "smollm2"}
    assert {case.suite for case in chosen("--only", "two-gpus")} == {"two-gpus"}
    assert {case.suite for case in chosen("--only", "qwen3-float16")} == {"families"}
    assert {case.name for case in chosen("--only", "qwen3_moe-float16-compiled-beside-stock")} == {
        "qwen3_moe-float16-compiled-beside-stock"
    }
    assert "long" not in "".join(case.name for case in chosen("--without", "long"))


def test_a_record_keeps_its_cases_and_knows_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.gpu.serving.record.machine", lambda: {"gpu": "one"})
    file = tmp_path / "record.json"
    first = Record(file, ["a", "b", "c"])
    first.add({"case": "c"})
    first.add({"case": "a", "fault": "x"})
    again = Record(file, ["a", "b", "c"])
    assert [name for name in "abc" if again.lacks(name)] == ["a", "b"]
    again.add({"case": "a"})
    assert list(Record(file, []).cases) == ["a", "c"]


def test_a_case_whose_process_dies_is_a_fault_and_not_the_end(tmp_path: Path) -> None:
    args = prove.parsed(["--logs", str(tmp_path), "--models", str(tmp_path / "none")])
    record = prove.run(Case("llama", label="no such case"), prove.PORT, args)
    assert record["case"] == "llama-float16-eager-no such case"
    assert record["fault"].startswith("its process ended with 1")
    assert "StopIteration" in record["fault"]


STOPPED = """
import sys, time
from pathlib import Path
from tests.gpu.serving import one
def run(case, place):
    try:
        print("running", flush=True)
        time.sleep(60)
    finally:
        Path(sys.argv[2]).touch()
one.run = run
one.main()
"""


def test_a_case_that_is_stopped_stops_its_server_first(tmp_path: Path) -> None:
    words = ["llama-float16-eager", str(tmp_path / "stopped"), "--models", "none", "--logs", "none"]
    process = subprocess.Popen([sys.executable, "-c", STOPPED, *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"running\n"
    process.terminate()
    assert process.wait(30) == 1
    process.stdout.close()
    assert (tmp_path / "stopped").exists()


def test_stock_vllm_gets_our_arguments_without_ours() -> None:
    argv = ["python", "-m", "x", "--port", "1", "--worker-cls", "ours", "--kv-cache-dtype", "auto"]
    plain = ["python", "-m", "x", "--kv-cache-dtype", "auto", "--port", "2", "--attention-backend", "TRITON_ATTN"]
    assert stock_argv(argv, 2, "qwen3") == plain
    assert stock_argv(argv, 2, "qwen3_next") == [*plain, "--gdn-prefill-backend", "triton"]


@pytest.mark.parametrize("module", sorted(path.stem for path in Path(prove.__file__).parent.glob("*.py")))
def test_every_module_of_the_proof_can_be_imported(module: str) -> None:
    assert import_module(f"tests.gpu.serving.{module}").__doc__
