"""`doctor` as a process: on this machine, and on recorded ones."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "config"))
sys.path.insert(0, str(Path(__file__).parent / "machine"))
import cli
from recorded import NAMES, file_of, recorded

from toolkit.machine import facts_file
from toolkit.planning.rules.registry import ALL_RULES

EXPECTED = {
    "v100_sxm2_32gb_x4": {"over-nodes"},
    "v100_sxm2_32gb_x4_r580": {"over-nodes"},
    "v100_pcie_16gb_x2_no_p2p": {"peer-access-missing"},
    "mixed_cards": {"over-nodes", "device-order", "gpus-differ", "peer-access-missing"},
    "driver_too_old": {"over-nodes", "driver-too-old", "docker-without-gpu"},
    "cuda13_leftovers": {
        "gpu-memory-taken", "orphaned-engine", "replaced-libraries", "cuda-13-leftovers", "two-copies",
        "user-site-shadows", "torch-without-sm70", "ptxas-without-sm70", "source-tree-first",
        "extension-without-sm70", "extension-cannot-load", "package-files-missing",
    },
    "no_gpu": {"no-v100-here", "could-not-be-read"},
    "h200": {"no-v100-here"},
}  # fmt: skip
REFUSED = {"driver_too_old", "cuda13_leftovers"}


def doctor(*arguments, code, **environment):
    result = cli.call("doctor", "output=json", *arguments, **environment)
    assert (result.returncode, result.stderr) == (code, "")
    return json.loads(result.stdout)


def rules(document):
    return {finding["rule"] for finding in document["findings"]}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_wrong_with_a_recorded_machine(name):
    document = doctor(f"machine.facts_file={file_of(name)}", code=5 if name in REFUSED else 0)
    assert rules(document) == EXPECTED[name]
    assert document["ok"] == (name not in REFUSED)
    assert facts_file.from_json(document, Path()) == recorded(name)


def test_this_machine(tmp_path):
    document = doctor(code=0)
    assert document["schema"] == 1
    assert document["facts"]["machine"]["architecture"]
    assert rules(document) <= {rule.id for rule in ALL_RULES}
    if not Path("/dev/nvidiactl").exists():
        assert "no-v100-here" in rules(document)  # nothing is called well that was not looked at
    saved = tmp_path / "mine.json"
    saved.write_text(json.dumps(document))
    again = doctor(f"machine.facts_file={saved}", code=0)
    assert again["facts"] == document["facts"]
    assert again["findings"] == document["findings"]


def test_folders_that_cannot_be_written_are_found_before_a_start(tmp_path):
    """By a doctor with and without a deployment, by a plan, and so by serve."""
    (tmp_path / "file").write_text("")
    here = doctor(code=0, XDG_CACHE_HOME=str(tmp_path / "file"))["facts"]["machine"]["unwritable"]
    assert here == {"compiled code": f"{tmp_path / 'file'} is no folder"}
    facts = json.loads(file_of("v100_sxm2_32gb_x4").read_text())
    facts["machine"]["unwritable"] = here
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    v100 = f"machine.facts_file={tmp_path / 'facts.json'}"
    assert "folder-unwritable" in rules(doctor(v100, code=5))
    assert "folder-unwritable" in rules(doctor("+recipe=smollm2_v100", v100, code=5))
    planned = json.loads(cli.call("plan", "+recipe=smollm2_v100", v100, "output=json").stdout)
    assert "folder-unwritable" in rules(planned)


def test_a_deployment_is_checked_as_well():
    healthy = f"machine.facts_file={file_of('v100_sxm2_32gb_x4')}"
    assert "recipe-unsupported" not in rules(doctor(healthy, code=0))
    document = doctor("+recipe=dcp2_e4m3", healthy, code=5)
    assert {"recipe-unsupported", "over-nodes"} <= rules(document)
    assert document["recipe"] == "dcp2_e4m3"
    assert "port-out-of-range" in rules(doctor("server.port=0", healthy, code=5))


def test_the_suites_own_recipe_can_be_served_here():
    document = doctor("+recipe=tiny_random_cpu", "server.port=18433", code=0)
    assert document["counts"]["refuse"] == 0


def test_a_recipe_for_gpus_is_an_error_on_a_machine_without():
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is an NVIDIA driver here")
    assert {"no-gpu", "torch-without-sm70"} <= rules(doctor("+recipe=qwen38_27b_nvfp4", code=5))


def test_a_checkpoint_that_cannot_be_read_keeps_nothing_back(tmp_path):
    (tmp_path / "config.json").write_text("{")
    checkpoint = ("checkpoint.source.kind=local", f"checkpoint.source.path={tmp_path}")
    document = doctor(*checkpoint, f"machine.facts_file={file_of('cuda13_leftovers')}", code=5)
    assert {"checkpoint-unreadable", "torch-without-sm70"} <= rules(document)


def test_the_text_ends_with_a_verdict():
    result = cli.call("doctor", f"machine.facts_file={file_of('cuda13_leftovers')}")
    assert (result.returncode, result.stderr) == (5, "")
    assert result.stdout.splitlines()[-1] == "5 errors, 8 warnings"
    result = cli.call("doctor", f"machine.facts_file={file_of('v100_sxm2_32gb_x4')}")
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "nothing wrong was found")


def test_a_report_has_no_secrets(tmp_path):
    secret = "s3cr3t-" + "x" * 20
    result = cli.call("doctor", "output=json", VLLM_API_KEY=secret, VLLM_NOTE="kept", HOME=str(tmp_path))
    assert result.returncode == 0
    assert secret not in result.stdout
    environment = json.loads(result.stdout)["facts"]["machine"]["environment"]
    assert (environment["VLLM_NOTE"], environment["VLLM_API_KEY"]) == ("kept", "<left out>")


@pytest.mark.parametrize("python", ["none", "silent", "strange"])
def test_an_interpreter_that_does_not_answer_is_not_called_well(tmp_path, python):
    for name, line in (("silent", "exit 0"), ("strange", "echo '[1, 2]'")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    document = doctor(f"engine.python={tmp_path / python}", "server.port=18433", code=5)
    refused = {found["rule"] for found in document["findings"] if found["severity"] == "refuse"}
    assert refused == {"interpreter-silent"}
    machine = document["facts"]["machine"]
    reason = f"{tmp_path / python} does not say where it imports from"
    for fact in ("software", "extensions", "members"):
        assert machine[fact] is None
        assert machine["unread"][fact] == reason
    assert {"software", "extensions", "members"} <= {
        found["where"] for found in document["findings"] if found["rule"] == "could-not-be-read"
    }


def test_a_folder_that_is_named_twice_holds_one_copy(tmp_path):
    for name in ("torch-2.0.dist-info", "vllm-0.1.dist-info"):
        (tmp_path / "packages" / name).mkdir(parents=True)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho \'["{tmp_path}/packages", "{tmp_path}/packages"]\'\n')
    python.chmod(0o755)
    document = doctor(f"engine.python={python}", "server.port=18433", code=5)  # it says nothing else of itself
    found = document["facts"]["machine"]["software"]["distributions"]
    assert [copy["name"] for copy in found] == ["torch", "vllm"]
    assert "two-copies" not in rules(document)


def test_an_empty_path_and_a_home_that_cannot_be_written_hold_nothing_up(tmp_path):
    result = cli.call("doctor", PATH="", HOME="/proc/none", XDG_CACHE_HOME="/proc/none")
    assert result.returncode == 0
    assert "Traceback" not in result.stderr


def test_it_writes_nothing(tmp_path):
    result = cli.call("doctor", cwd=tmp_path, HOME=str(tmp_path))
    assert result.returncode == 0
    assert list(tmp_path.iterdir()) == []
