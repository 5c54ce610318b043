"""The whole check of a wheel, and its record."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolkit.native.check import device_rules, elf_rules, fresh, wheel_rules
from toolkit.native.check.finding import Finding
from toolkit.native.check.policy import for_wheel
from toolkit.native.check.wheel import Wheel
from toolkit.native.elf import device
from toolkit.native.elf.image import Image


@dataclass(frozen=True)
class Report:
    """What was found: the manifest (a JSON document, package-manifest.json) and the faults by rule."""

    manifest: dict[str, Any]
    findings: tuple[Finding, ...]

    @property
    def document(self) -> str:
        """The manifest as a JSON text."""
        return json.dumps(self.manifest, indent=2)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong. A verb ends with exit code 5 otherwise."""
        return not self.findings


def check_wheel(path: Path) -> Report:
    """Check a wheel file: ours (by its name) by every rule and in a new process, anyone's by the general rules.

    Raises CheckFailedError if the file is no wheel.
    """
    wheel = Wheel.read(path)
    policy = for_wheel(wheel.name, wheel.tag)
    findings = list(wheel_rules.check(wheel, policy))
    for image in wheel.images.values():
        findings += elf_rules.check(image, policy)
        findings += device_rules.check_ours(image) if policy.ours else device_rules.check_anyones(image)
    used: dict[str, Any] = {}
    if policy.ours and not findings:  # a library that breaks a rule is not loaded
        used, findings = fresh.use(path)
    return Report(_manifest(wheel, findings, used), tuple(findings))


def _manifest(wheel: Wheel, findings: list[Finding], used: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": 1,
        "wheel": wheel.path.name,
        "sha256": hashlib.sha256(wheel.path.read_bytes()).hexdigest(),
        "runs_on_v100": _runs_on_v100(wheel),
        "members": {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in sorted(wheel.members.items())
        },
        "libraries": {name: _library(image) for name, image in sorted(wheel.images.items())},
        "used": used,
        "findings": [asdict(finding) for finding in findings],
    }


def _runs_on_v100(wheel: Wheel) -> bool | None:
    """Whether every library with device code has some that a V100 takes; None if none has device code."""
    verdicts = [_library_runs(device.targets(image)) for image in wheel.images.values()]
    carrying = [verdict for verdict in verdicts if verdict is not None]
    return all(carrying) if carrying else None


def _library_runs(targets: tuple[device.Target, ...]) -> bool | None:
    return any(map(device_rules.runs_on_v100, targets)) if targets else None


def _library(image: Image) -> dict[str, Any]:
    targets = device.targets(image)
    return {
        "needed": list(image.needed),
        "highest_versions": _highest(image),
        "runs_on_v100": _library_runs(targets),
        "device_code": [asdict(target) | {"target": str(target)} for target in targets],
    }


def _highest(image: Image) -> dict[str, str]:
    """The highest version of each family (GLIBC, GLIBCXX, ...) that the library needs."""
    highest: dict[str, tuple[int, ...]] = {}
    for _, version in image.versions:
        family, _, number = version.rpartition("_")
        if number.replace(".", "").isdigit():
            highest[family] = max(highest.get(family, (0,)), tuple(int(part) for part in number.split(".")))
    return {family: ".".join(str(part) for part in number) for family, number in sorted(highest.items())}
