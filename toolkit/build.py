"""`python -m toolkit.build`: builds the native wheel without a CUDA toolkit, and then checks it."""

from __future__ import annotations

import sys
from pathlib import Path

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import BuildConfig, Output
from toolkit.config.search_path import PACKAGE
from toolkit.errors import ConfigurationError
from toolkit.native.build import build_wheel
from toolkit.native.check import check_wheel
from toolkit.native.check.text import text
from toolkit.streams import say, tell
from toolkit.verb import run_verb

FAILED = 5


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("build", BuildConfig, run))


def run(composed: Composed[BuildConfig]) -> int:
    """Build and check; 5 where a check fails."""
    config, root = composed.config, PACKAGE.parent
    if not (root / "kernels" / "CMakeLists.txt").is_file():
        raise ConfigurationError(
            "there are no kernel sources here", where=str(root), fix="run build in a checkout of the project"
        )
    folder = Path(config.folder).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "it is a file" if folder.is_file() else error.strerror or str(error)
        raise ConfigurationError(
            "the wheel's folder cannot be made", where=f"folder={config.folder}", why=why, fix="set folder=DIR"
        ) from error
    from platformdirs import user_cache_path

    tell("building the native wheel; the first time compiles everything")
    wheel = build_wheel(root, folder, cache=user_cache_path("volta-toolkit") / "toolchain", jobs=config.jobs)
    report = check_wheel(wheel)
    (folder / "package-manifest.json").write_text(report.document + "\n", encoding="utf-8")
    say(report.document if config.output is Output.json else text(report))
    return 0 if report.passed else FAILED


if __name__ == "__main__":
    main()
