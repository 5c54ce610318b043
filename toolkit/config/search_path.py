"""Where the shipped configuration lies: beside the package in a wheel, beside the sources in a checkout."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def shipped_conf() -> Path:
    """The folder of configuration groups that comes with the toolkit."""
    installed = PACKAGE / "conf"
    return installed if installed.is_dir() else PACKAGE.parent / "conf"
