"""`python -m toolkit.calibrate +recipe=NAME`: measures KV scales on prompts and writes a scale pack."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.calibration.carry_out import calibrate
from toolkit.calibration.code_use import CodeUse
from toolkit.calibration.deployment import measuring
from toolkit.calibration.output import output_folder, write_calibration
from toolkit.calibration.report import Calibration
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import CalibrateConfig, Output
from toolkit.counted import counted
from toolkit.display.terminal import progress_for, reporter_for
from toolkit.streams import say, tell
from toolkit.verb import run_verb


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("calibrate", CalibrateConfig, run))


def run(composed: Composed[CalibrateConfig]) -> int:
    """Measure, and write the pack; 128+n where a signal came first."""
    config = composed.config
    with output_folder(config.folder, config.checkpoint.name) as folder:
        answer = calibrate(measuring(composed), os.environ, reporter_for(sys.stderr), progress_for(sys.stderr))
        if isinstance(answer, int):
            return answer
        write_calibration(answer, folder)
    serve = _serve_line(composed, folder)
    if config.output is Output.json:
        say(json.dumps({"folder": str(folder), "serve": serve, **answer.to_data()}, indent=1))
    else:
        _show(answer, folder, serve)
    return 0


def _show(calibration: Calibration, folder: Path, serve: str) -> None:
    totals, prompts = calibration.totals, calibration.prompts
    say(str(folder))
    tokens = f"{totals.prompt_tokens:,} prompt and {counted(totals.generated_tokens, 'generated token')}"
    say(f"  {counted(len(calibration.scales), 'scale')} from {tokens} of {counted(totals.prompts, 'prompt')}")
    say(f"  prompts: {prompts.source}, SHA-256 {prompts.sha256}")
    for kind in "kv":
        largest = max((s for s in calibration.scales if s.kind == kind), key=lambda scale: scale.whole.largest)
        say(f"  largest {kind.upper()}: {largest.whole.largest:g}, scale {largest.scale:.6g}, {largest.name}")
    for kind, what in (("k", "keys"), ("v", "values")):
        say(f"  {what} as E4M3: {_codes(calibration.codes(kind))}")
        say(f"  with scales of 1: {_codes(calibration.codes(kind, unit=True))}")
    worst = calibration.least_stable
    say(f"  the maxima of both halves of the prompts agree within a factor of {worst.ratio:.2f} ({worst.name})")
    for note in calibration.notes():
        tell(f"  note: {note}")
    say(f"serve with them: {serve}")


def _codes(used: CodeUse) -> str:
    lost = f"{used.lost:.3%} of them become zero, {used.saturated:.3%} are clipped"
    return f"{used.subnormal:.3%} of them with fewer than 4 bits, {lost}, codes up to {used.largest_code:g} of 448"


def _serve_line(composed: Composed[CalibrateConfig], folder: Path) -> str:
    """The command that serves the same deployment with the pack."""
    ours = ("folder", "artifact", "prompts", "prompts_sha256", "max_tokens", "output")
    typed = [item for item in composed.overrides if item.lstrip("+").partition("=")[0] not in ours]
    kv = [] if composed.config.kv.dtype.startswith("fp8") else ["kv=fp8_e4m3"]
    kept = [item for item in typed if not (kv and item.startswith(("kv=", "kv.")))]
    return shlex.join(["python", "-m", "toolkit.serve", *kept, *kv, f"overlay.path={folder}"])


if __name__ == "__main__":
    main()
