"""What differs is named; what only looks different is not."""

from dataclasses import replace

from toolkit.runs.differences import Difference, differences
from toolkit.runs.packages import Package
from toolkit.runs.receipt import Receipt
from toolkit.runs.secrets import LEFT_OUT

RECORDED = Receipt(
    run="a",
    toolkit="0.1.0",
    created="then",
    recipe="r",
    config={},
    plan={},
    argv=["/venv/bin/python", "-m", "vllm", "--model", "/m", "--enforce-eager", "--port", "8000"],
    env={"PATH": "/bin", "VOLTA_RUN": "/runs/a", "HF_TOKEN": LEFT_OUT},
    dropped=[],
    machine={"cpu_count": 2, "available_bytes": 5, "gpus": [{"name": "V100", "free_bytes": 1}], "cpu_flags": ["avx2"]},
    files={"path": "/m", "bytes": {"config.json": 10}},
    packages={"torch": Package("2.10.0", "a" * 64)},
)


def test_a_receipt_does_not_differ_from_itself():
    assert differences(RECORDED, RECORDED) == ()


def test_what_is_another_at_every_start_is_no_difference():
    here = replace(
        RECORDED,
        run="b",
        created="now",
        env={**RECORDED.env, "VOLTA_RUN": "/runs/b", "HF_TOKEN": "x"},
        machine={**RECORDED.machine, "available_bytes": 6, "gpus": [{"name": "V100", "free_bytes": 2}]},
    )
    assert differences(RECORDED, here) == ()


def test_everything_that_matters_is_named():
    here = replace(
        RECORDED,
        toolkit="0.2.0",
        argv=["/venv/bin/python", "-m", "vllm", "--model", "/m", "--port", "8001", "--seed", "0"],
        env={"PATH": "/usr/bin"},
        machine={**RECORDED.machine, "cpu_flags": ["avx2", "avx512f"], "gpus": [{"name": "H200"}]},
        files={"path": "/m", "bytes": {"config.json": 11, "new.json": 1}},
        packages={"torch": Package("2.10.0", "b" * 64), "vllm": Package("0.32.0", None)},
    )
    assert differences(RECORDED, here) == (
        Difference("toolkit", "version", "0.1.0", "0.2.0"),
        Difference("package", "torch", f"2.10.0 (files {'a' * 12})", f"2.10.0 (files {'b' * 12})"),
        Difference("package", "vllm", "absent", "0.32.0 (files unrecorded)"),
        Difference("machine", "gpus[0].name", "V100", "H200"),
        Difference("machine", "cpu_flags", "avx2", "avx2 avx512f"),
        Difference("file", "bytes.config.json", "10", "11"),
        Difference("file", "bytes.new.json", "absent", "1"),
        Difference("argument", "--enforce-eager", "", "absent"),
        Difference("argument", "--port", "8000", "8001"),
        Difference("argument", "--seed", "absent", "0"),
        Difference("environment", "PATH", "/bin", "/usr/bin"),
    )
