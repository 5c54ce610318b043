"""Checking a wheel before anybody installs it: ours by every rule, anyone's by the general ones."""

from toolkit.native.check.report import Report, check_wheel

__all__ = ["Report", "check_wheel"]
