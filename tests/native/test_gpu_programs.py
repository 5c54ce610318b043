"""What the programs in tests/gpu make of checks and of a sanitizer's words, without a GPU."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

GPU = Path(__file__).resolve().parents[1] / "gpu"
SUMMARY = {
    "memcheck": "========= ERROR SUMMARY: {} errors",
    "racecheck": "========= RACECHECK SUMMARY: {} hazards displayed ({} errors, 0 warnings)",
}
SANITIZER = """#!{python}
import json, os, sys
given = sys.argv[1:]
tool, log = given[given.index("--tool") + 1], given[given.index("--log-file") + 1]
words = json.loads(os.environ["WORDS"])
canary = given[-2].endswith("canary.py")
open(log, "w").write(words["canary" if canary else "checks"])
if canary:
    sys.exit(words["canary_exit"])
words |= words["parts"].get(given[given.index("--part") + 1], {})
open(log, "w").write(words["checks"])
record = given[given.index("--json") + 1]
if words["record"] is not None:
    json.dump(words["record"], open(record, "w"))
sys.exit(words["exit"])
"""


def program(name):
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", GPU / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sanitize(tmp_path):
    """Runs sanitize.py with a sanitizer that says what it is told to: its lines, and the record of the checks."""
    binary = tmp_path / "compute-sanitizer"
    binary.write_text(SANITIZER.replace("{python}", sys.executable))
    binary.chmod(0o755)

    def run(tool="memcheck", jobs=1, **changed):
        found = SUMMARY[tool].format(1, 1)
        words = {
            "canary": f"========= Invalid write in {tool}_canary_sm70\n{found}\n",
            "canary_exit": 99,
            "checks": f"========= COMPUTE-SANITIZER\n{SUMMARY[tool].format(0, 0)}\n",
            "record": {"complete": True, "checks": 1500, "failures": {}},
            "exit": 0,
            "parts": {},
        } | changed
        file = tmp_path / "record.json"
        command = [sys.executable, str(GPU / "sanitize.py"), "--tool", tool, "--sanitizer", str(binary)]
        command += ["--jobs", str(jobs)]
        environment = os.environ | {"WORDS": json.dumps(words)}
        answer = subprocess.run(
            [*command, "--json", str(file)], env=environment, capture_output=True, text=True, check=False
        )
        (outcome,) = json.loads(file.read_text())["tools"]
        return answer, outcome

    return run


@pytest.mark.parametrize("tool", SUMMARY)
def test_a_tool_that_finds_its_canary_and_nothing_else_passes(tool, sanitize):
    answer, outcome = sanitize(tool)
    assert answer.returncode == 0, answer.stderr
    assert (outcome["checks"], outcome["errors"], outcome["faults"]) == (1500, 0, [])
    assert f"{tool}: 1500 checks in " in answer.stdout
    assert ": its canary found, and nothing else (seed " in answer.stdout


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"canary": "========= ERROR SUMMARY: 0 errors\n", "canary_exit": 0}, "it does not find the fault"),
        ({"canary": "========= ERROR SUMMARY: 1 error\n"}, "it does not find the fault"),
        ({"checks": "========= COMPUTE-SANITIZER\n"}, "it does not say how many errors it saw"),
        ({"checks": "========= Invalid read\n========= ERROR SUMMARY: 3 errors\n", "exit": 99}, "3 errors"),
        ({"record": None, "exit": 1}, "the checks did not come to their end"),
        ({"record": {"complete": False, "checks": 9, "failures": {}}}, "the checks did not come to their end"),
        ({"record": {"complete": True, "checks": 0, "failures": {}}}, "the checks did not come to their end"),
        ({"record": {"complete": True, "checks": 9, "failures": {"x": "wrong"}}, "exit": 1}, "x fails"),
        ({"exit": 255}, "exit status 255"),
    ],
)
def test_a_run_that_watched_nothing_or_found_something_fails(changed, fault, sanitize):
    answer, outcome = sanitize(**changed)
    assert answer.returncode == 1
    assert any(fault in each for each in outcome["faults"])
    assert "Invalid read" not in changed.get("checks", "") or "========= Invalid read" in answer.stdout


def test_processes_share_the_checks_of_a_tool(sanitize):
    answer, outcome = sanitize(jobs=3)
    assert answer.returncode == 0, answer.stderr
    assert (outcome["checks"], outcome["errors"], outcome["faults"]) == (4500, 0, [])


@pytest.mark.parametrize(
    ("share", "fault"),
    [
        ({"record": None}, "the checks did not come to their end"),
        ({"checks": ""}, "it does not say how many errors it saw"),
        ({"checks": SUMMARY["memcheck"].format(2)}, "2 errors"),
        ({"exit": 99}, "exit status 99"),
    ],
)
def test_one_bad_share_of_three_fails_the_tool(share, fault, sanitize):
    answer, outcome = sanitize(jobs=3, parts={"2/3": share})
    assert answer.returncode == 1
    assert outcome["faults"] == [fault]


def test_every_tool_has_a_canary_whose_name_the_filter_takes():
    canary = program("canary")
    assert set(canary.BODIES) == {"memcheck", "racecheck", "synccheck"}
    assert all("_sm70(" in canary.ENTRY.format(tool=tool, body=body) for tool, body in canary.BODIES.items())


def test_the_record_holds_what_was_done_when_a_run_is_cut_short(monkeypatch):
    run = program("run")
    monkeypatch.setattr(run, "SECONDS_BETWEEN_LINES", -1)
    kept = []

    def fails():
        raise AssertionError("3 of 5 elements differ")

    def interrupted():
        raise KeyboardInterrupt

    deviation = run.Deviation(0.12345678, 1.0)
    named = [("exact", lambda: None), ("close", lambda: deviation), ("wrong", fails), ("last", interrupted)]
    with pytest.raises(KeyboardInterrupt):
        run.execute(named, lambda: None, kept.append)
    assert kept[-1] == {
        "complete": False,
        "checks": 3,
        "failures": {"wrong": "3 of 5 elements differ"},
        "worst_error_and_share_exact": {"exact": None, "close": [0.1235, 1.0]},
    }
    found = run.execute(named[:3], lambda: None, kept.append)
    assert found["complete"]
    assert kept[-1] == found


def test_a_record_has_a_line_for_each_check():
    run = program("run")
    record = {
        "gpu": "x",
        "capability": [9, 0],
        "worst": {"a": [0.5, 1e-06], "b": None, "c": [1.0, 0.25]},
        "failures": {},
    }
    text = run.as_text(record)
    assert json.loads(text) == record
    assert '"a": [0.5, 1e-06],\n' in text
    assert len(text.splitlines()) == 10


def test_parts_are_all_of_the_checks_once():
    run = program("run")
    every = [(f"check-{number}", None) for number in range(11)] + [("graph-replay", None)]
    parts = [run.chosen(every, "", ["graph"], f"{number}/3") for number in (1, 2, 3)]
    assert sorted(name for part in parts for name, _ in part) == sorted(name for name, _ in every[:11])
    assert [name for name, _ in run.chosen(every, "-7", [], "1/1")] == ["check-7"]
