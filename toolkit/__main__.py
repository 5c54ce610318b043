"""`python -m toolkit`: names the verbs."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from toolkit.streams import tell


def main() -> None:
    """Tell what can be run, and leave with 2: nothing was asked for."""
    scripts = entry_points(group="console_scripts")
    verbs = [script.name.removeprefix("toolkit-") for script in scripts if script.value.startswith("toolkit.")]
    tell(f"usage: python -m toolkit.VERB [OPTION=VALUE ...], or --help\n  verbs: {', '.join(verbs)}")
    sys.exit(2)


if __name__ == "__main__":
    main()
