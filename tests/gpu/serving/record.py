"""The evidence: one JSON file, written anew after each case, whose other cases stay."""

import json
import platform
import subprocess


class Record:
    """Cases by name, in the order of `order`; a case that is run again replaces its entry."""

    def __init__(self, path, order):
        self._path, self._order = path, list(order)
        known = json.loads(path.read_text(encoding="utf-8")) if path is not None and path.exists() else {}
        self._machine = {name: value for name, value in known.items() if name != "cases"}
        self.cases = {case["case"]: case for case in known.get("cases", [])}

    def lacks(self, name):
        """Whether a case was not run yet, or ended with a fault."""
        return name not in self.cases or "fault" in self.cases[name]

    def add(self, case):
        """Keep a case's record and write the file in one step."""
        self.cases[case["case"]] = case
        if self._path is None:
            return
        self._machine = self._machine or machine()
        known = sorted(self.cases.values(), key=lambda each: self._order.index(each["case"]))
        text = json.dumps({**self._machine, "cases": known}, indent=1) + "\n"
        beside = self._path.with_suffix(".new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._path)


def machine():
    """The GPUs and the versions."""
    from importlib.metadata import version

    asked = "--query-gpu=name,driver_version,compute_cap"
    command = ["nvidia-smi", asked, "--format=csv,noheader"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    name, driver, capability = (part.strip() for part in lines[0].split(","))
    note = "a V100" if capability == "7.0" else "not a V100: compute_70 PTX; Triton kernels compiled for this GPU"
    return {
        "gpu": name,
        "gpus": len(lines),
        "note": note,
        "driver": driver,
        "python": platform.python_version(),
        "torch": version("torch"),
        "vllm": version("vllm"),
        "command": "python -m tests.gpu.serving.prove --json FILE",
    }
