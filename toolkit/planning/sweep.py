"""Several plans of one sweep, by what tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.planning.plan import Plan, Severity


@dataclass(frozen=True)
class Row:
    """One combination: its plan, or the error that it ended in."""

    overrides: Mapping[str, str]
    """What the command line set, by option or group."""
    plan: Plan | None
    origins: Mapping[str, str]
    error: ToolkitError | None = None

    @property
    def refusals(self) -> tuple[str, ...]:
        """The rules that refuse the plan, each once."""
        found = self.plan.findings if self.plan is not None else ()
        return tuple(dict.fromkeys(finding.rule for finding in found if finding.severity is Severity.refuse))


def as_mapping(overrides: Sequence[str]) -> dict[str, str]:
    """Overrides by option or group, without the signs that say how they are set."""
    return {key.lstrip("+~"): value.strip("'") for key, _, value in (text.partition("=") for text in overrides)}


def swept(rows: Sequence[Row]) -> tuple[str, ...]:
    """The options that are not the same in all rows, in the order of the command line; all where there is one row."""
    keys = dict.fromkeys(key for row in rows for key in row.overrides)
    return tuple(key for key in keys if len(rows) == 1 or len({row.overrides.get(key) for row in rows}) > 1)


def refused_in_all(rows: Sequence[Row]) -> tuple[str, ...]:
    """The rules that refuse every plan of the sweep."""
    planned = [row.refusals for row in rows if row.plan is not None]
    return tuple(rule for rule in planned[0] if all(rule in others for others in planned)) if planned else ()


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """The sweep as plain data."""
    plans = [
        {"overrides": dict(row.overrides), **row.plan.to_json(), "origins": dict(row.origins)}
        for row in rows
        if row.plan is not None
    ]
    failed = [
        {
            "overrides": dict(row.overrides),
            "exit_code": error.exit_code,
            "error": {"what": error.what, "where": error.where, "why": error.why, "fix": error.fix},
        }
        for row in rows
        if (error := row.error) is not None
    ]
    return {"schema": 1, "swept": list(swept(rows)), "plans": plans, "failed": failed}
