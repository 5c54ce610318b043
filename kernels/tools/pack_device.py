"""Put compiled device code and its manifest into one container.

usage: pack_device.py --operators FILE --stamp FILE OUTPUT STEM...
Each STEM names STEM.cubin and STEM.ptx.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from toolkit.native.container import Entry, Kind, pack


def main() -> int:
    """Write the container."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--operators", type=Path, required=True)
    parser.add_argument("--stamp", type=Path, required=True)
    parser.add_argument("output", type=Path)
    parser.add_argument("stems", type=Path, nargs="+")
    args = parser.parse_args()
    manifest = json.loads(args.stamp.read_text("utf-8")) | json.loads(args.operators.read_text("utf-8"))
    text = json.dumps(manifest, sort_keys=True, indent=1).encode()
    entries = [Entry("manifest", Kind.MANIFEST, 0, text)]
    for stem in sorted(args.stems):
        entries.append(Entry(stem.name, Kind.CUBIN, 70, stem.with_suffix(".cubin").read_bytes()))
        entries.append(Entry(stem.name, Kind.PTX, 70, stem.with_suffix(".ptx").read_bytes()))
    args.output.write_bytes(pack(entries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
