"""The records of GPU runs are about the device code of this checkout, or docs/native.md names what has changed."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from toolkit.native import info, load

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs" / "evidence"


def recorded(name):
    return json.loads((EVIDENCE / name).read_text(encoding="utf-8"))


def changed_since(record):
    load()
    now = {f"{code.name}.{code.kind}": code.sha256 for code in info().device_code}
    return sorted({name.split(".")[0] for name in now if record["device_code"].get(name) != now[name]})


@pytest.mark.parametrize("name", ["native_operators_h200.json", "sanitizer_h200.json"])
def test_the_page_names_every_kernel_that_has_changed_since_it_ran(name):
    told = ", ".join(changed_since(recorded(name))) or "none"
    text = (ROOT / "docs" / "native.md").read_text(encoding="utf-8")
    assert f"Changed since then, and not run on a GPU: {told}." in " ".join(text.split())


def test_the_page_tells_the_records_counts():
    text = (ROOT / "docs" / "native.md").read_text(encoding="utf-8")
    checks = recorded("native_operators_h200.json")
    (watched,) = {tool["checks"] for tool in recorded("sanitizer_h200.json")["tools"]}
    assert (checks["complete"], checks["failures"]) == (True, {})
    assert f"{checks['checks']:,} of {checks['checks']:,} checks" in text
    assert f"{watched:,} of these checks" in text
    assert all(not tool["errors"] and not tool["faults"] for tool in recorded("sanitizer_h200.json")["tools"])
