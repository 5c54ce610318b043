"""Compile one kernels/cuda file: SOURCE to OUTPUT.cubin, OUTPUT.ptx and OUTPUT.d (the build tool's dependency file).

usage: compile_device.py --nvrtc LIBRARY --include FOLDER... --root FOLDER SOURCE OUTPUT
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from toolkit.errors import CheckFailedError
from toolkit.native.nvrtc import Compiler, dependencies


def main() -> int:
    """Compile; print the compiler's words and return 1 if the file does not compile."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvrtc", type=Path, required=True)
    parser.add_argument("--include", type=Path, action="append", default=[])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("source", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    source: Path = args.source.resolve()
    try:
        made = Compiler(args.nvrtc, args.include).compile(source, str(source.relative_to(args.root)))
    except CheckFailedError as error:
        sys.stderr.write(f"{error.why or error.what}\n")
        return 1
    cubin = args.output.with_suffix(".cubin")
    cubin.write_bytes(made.cubin)
    args.output.with_suffix(".ptx").write_bytes(made.ptx)
    needed = " ".join(_escape(path) for path in (source, *dependencies(source, args.include)))
    args.output.with_suffix(".d").write_text(f"{_escape(cubin)}: {needed}\n", encoding="utf-8")
    return 0


def _escape(path: Path) -> str:
    return str(path).replace(" ", "\\ ")


if __name__ == "__main__":
    sys.exit(main())
