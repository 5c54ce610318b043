"""The Plan: what `plan` prints, `serve` carries out and a receipt embeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from toolkit.planning.budget import Budget
from toolkit.planning.expected import ExpectedWorkers

PLAN_SCHEMA = 1
ANSWER_TOKENS = 64
"""The most that a started server may answer to the question by which serve proves it."""


class Severity(Enum):
    """How much a finding weighs: `refuse` stops a serve, the others do not."""

    refuse = "refuse"
    warn = "warn"
    info = "info"
    unchecked = "unchecked"
    """A fact that the rule needs is missing, so nobody knows."""


@dataclass(frozen=True)
class Finding:
    """What one rule found."""

    rule: str
    """The rule's stable name, such as `kv-dtype-ambiguous`."""
    severity: Severity
    where: str
    """The option, file or device concerned."""
    message: str
    fix: str = ""


@dataclass(frozen=True)
class SwitchValue:
    """One switch as the plan settles it."""

    name: str
    value: bool
    source: str
    """`explicit`, `environment` or `default`."""
    reason: str
    alias: str


@dataclass(frozen=True)
class View:
    """The folder that the engine is given; without an overlay it is the checkpoint's own."""

    path: str | None
    """None while the checkpoint's files are not on this machine."""
    digest: str | None
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Capacity:
    """What the KV cache holds; None where the memory for it is only known after the engine's own profiling."""

    block_tokens: int
    bytes_per_block: int
    """Bytes of one block over all layers of a rank."""
    blocks: int | None
    blocks_per_request: int
    """Blocks of one request of max_model_len tokens."""
    tokens: int | None
    concurrency: float | None
    """Requests of max_model_len tokens that fit at once."""


@dataclass(frozen=True)
class ServerAddress:
    """Where the server listens, and how readiness is asked for."""

    host: str
    port: int
    model: str
    api_key_file: str | None = None

    @property
    def url(self) -> str:
        """The base URL; a bracketed host for IPv6."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True)
class Plan:
    """A deployment as it will be carried out."""

    recipe: str
    engine: str
    model: str
    server: ServerAddress
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Every variable that the plan sets for the engine."""
    inherit: tuple[str, ...]
    """Variables of the calling shell that the engine may see besides."""
    view: View
    budget: Budget
    """What takes memory on one rank, each number with its source and margin."""
    capacity: Capacity | None
    switches: tuple[SwitchValue, ...]
    findings: tuple[Finding, ...]
    workers: ExpectedWorkers
    """What the engine's workers should report of themselves."""

    @property
    def memory(self) -> Mapping[str, int]:
        """Bytes by purpose, for one rank."""
        return self.budget.by_purpose()

    @property
    def refused(self) -> bool:
        """Whether a rule refuses to serve this plan."""
        return any(finding.severity is Severity.refuse for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain data (schema PLAN_SCHEMA)."""
        data = asdict(self)
        data["schema"] = PLAN_SCHEMA
        data["memory"], data["budget"] = dict(self.memory), self.budget.to_json()
        data["findings"] = [{**asdict(finding), "severity": finding.severity.value} for finding in self.findings]
        return data
