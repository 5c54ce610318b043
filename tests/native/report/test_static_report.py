"""The committed report against the library that this checkout builds, and each finding."""

import dataclasses
import json
import subprocess
import sys

import pytest

from toolkit.errors import CheckFailedError
from toolkit.native import library
from toolkit.native.check.finding import Finding
from toolkit.native.report import record, rules
from toolkit.native.report.kernel import report
from toolkit.native.report.shapes import Shapes


@pytest.fixture(scope="session")
def reports(built, root):
    return report(library.find(), Shapes.read(root / "kernels" / "shapes.yaml"))


def told(findings):
    return "\n".join(f"{finding}\n  fix: {finding.fix}" for finding in findings)


def test_no_kernel_spills_or_became_slower_than_the_committed_report(reports, root):
    findings = rules.check(reports, record.read(root / record.PATH))
    assert findings == (), told(findings)


def recorded(reports):
    return [record.Recorded(item.name, item.prediction and item.prediction.microseconds) for item in reports]


@pytest.mark.parametrize(
    ("change", "rule", "message"),
    [
        ({"local": 24}, "spill", "a thread keeps 24 bytes in local memory, which is DRAM behind a cache"),
        ({"shared": 98305}, "shared-memory", "a block takes 98305 bytes of shared memory; a V100 has 98304"),
        ({"work": None, "prediction": None}, "no-shape", "no shape is declared for this operation and layout"),
        ({"name": "new_f16_f16_rows_sm70"}, "record", "it is not in the committed report"),
    ],
)
def test_each_fault_is_one_finding(change, rule, message, reports):
    first = dataclasses.replace(reports[0], **change)
    before = [entry for entry in recorded(reports[:1]) if "name" not in change]
    (finding,) = rules.check([first], before)
    assert (finding.rule, finding.where, finding.message) == (rule, first.name, message)
    assert finding.fix


def test_a_prediction_may_be_three_percent_worse(reports):
    one = reports[0]
    before = one.prediction.microseconds
    assert rules.check([one], [record.Recorded(one.name, before / 1.029)]) == ()
    (finding,) = rules.check([one], [record.Recorded(one.name, before / 1.031)])
    assert finding.rule == "slower"
    assert f"predicted {before:.4g} us, 3.1% more than the committed" in finding.message
    assert "renew=true" in finding.fix


def test_the_record_fits_the_library(reports):
    name, entries = reports[0].name, recorded(reports[:1])
    gone = Finding("record", "old", "it is in the committed report, but not in the library", record.RENEW)
    twice = Finding("record", name, "it is in the committed report 2 times", record.RENEW)
    assert rules.check(reports[:1], [*entries, record.Recorded("old", 1.0)]) == (gone,)
    assert rules.check(reports[:1], entries * 2) == (twice,)


def test_the_record_is_read_back_as_it_was_written(reports, tmp_path):
    path = tmp_path / "record.jsonl"
    record.write(path, reversed(reports))
    assert rules.check(reports, record.read(path)) == ()
    lines = path.read_text().splitlines()
    assert lines == sorted(lines)
    assert len(lines) == len(reports)
    path.write_text(lines[0] + "\n<<<<<<< ours\n")
    with pytest.raises(CheckFailedError) as caught:
        record.read(path)
    assert caught.value.where == f"{path}:2"
    assert record.read(tmp_path / "absent") == ()


def verb(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "toolkit.report", *arguments], capture_output=True, text=True, check=False
    )


def test_the_verb_prints_a_table_and_json(built, reports):
    text, document = verb("kernels=silu*"), verb("kernels=silu*", "output=json")
    assert (text.returncode, document.returncode) == (0, 0), text.stdout + text.stderr
    assert "nothing to object to" in text.stdout
    assert "f16 f16 rows8" in text.stdout
    found = json.loads(document.stdout)
    assert [item["name"] for item in found["kernels"]] == [i.name for i in reports if i.name.startswith("silu")]
    assert found["kernels"][0]["prediction"]["parts"].keys() >= {"dram", "issue", "fma", "memory"}


def test_a_library_that_is_none_is_an_error(tmp_path):
    path = tmp_path / "x.so"
    path.write_bytes(b"no library")
    result = verb(f"library={path}")
    assert result.returncode == 5
    assert result.stderr.startswith("error: not an ELF file\n")


def test_a_library_that_is_not_there_is_an_error(tmp_path):
    result = verb(f"library={tmp_path / 'absent.so'}")
    assert result.returncode == 2
    assert result.stderr.startswith("error: there is no library here\n")
