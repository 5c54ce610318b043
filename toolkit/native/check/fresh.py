"""Using the wheel as a stranger would: unpacked elsewhere, in a new process with an empty environment."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from toolkit.native.check.finding import Finding

# -S keeps .pth files, and with them editable installs of a checkout, out of the process.
_CODE = """
import json, sys
sys.path[:0] = [sys.argv[1]]
sys.path += sys.argv[2:]
from toolkit.native import selftest
print(json.dumps(selftest.run()))
"""


def use(wheel: Path) -> tuple[dict[str, Any], list[Finding]]:
    """Unpack the wheel, load its library and run an operator; what it reported, and what went wrong."""
    with (
        tempfile.TemporaryDirectory(prefix="wheel-") as folder,
        tempfile.TemporaryDirectory(prefix="elsewhere-") as cwd,
    ):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        sites = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
        command = [sys.executable, "-I", "-S", "-c", _CODE, folder, *sites]
        done = subprocess.run(command, cwd=cwd, env={}, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
            return {}, [Finding("import", wheel.name, f"a new process cannot use it: {lines[-1]}")]
        report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        strangers = [path for path in report["paths"] if not Path(path).is_relative_to(Path(folder).resolve())]
        report["paths"] = [
            str(Path(path).relative_to(Path(folder).resolve())) for path in report["paths"] if path not in strangers
        ]
        return report, [
            Finding("import", wheel.name, f"the process used {path}, which is not the wheel's") for path in strangers
        ]
