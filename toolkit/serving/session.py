"""One run's records: its folder, state and receipt, kept current so that even a killed run leaves them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

import toolkit
from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.engine.answer import Answer
from toolkit.engine.environment import Environment
from toolkit.errors import ConfigurationError
from toolkit.machine.facts import MachineFacts
from toolkit.planning.capacity.engine_log import Comparison
from toolkit.planning.plan import Finding, Plan
from toolkit.runs import receipt as receipts
from toolkit.runs.atomic import write_text
from toolkit.runs.folder import RunFolder
from toolkit.runs.receipt import Receipt
from toolkit.runs.secrets import without_secrets


@dataclass
class Session:
    """The run as it is recorded."""

    folder: RunFolder
    receipt: Receipt
    secrets: frozenset[str]
    notices: tuple[str, ...]
    """What the user should know before the start."""

    def record(self, **changes: Any) -> None:
        """Take changes into the receipt and write it."""
        self.receipt = replace(self.receipt, **changes)
        receipts.write(self.receipt, self.folder.receipt, self.secrets)


def open_session(folder: RunFolder, receipt: Receipt, secrets: frozenset[str], notice: str | None) -> Session:
    """Begin a run's records with its configuration.

    Raises:
        ConfigurationError: the folder cannot be written to; it is gone by then.
    """
    from omegaconf import OmegaConf

    config = without_secrets(receipt.config, secrets)
    try:
        write_text(folder.config, OmegaConf.to_yaml(OmegaConf.create(config)))
    except OSError as error:
        with suppress(OSError):
            folder.path.rmdir()  # nothing has begun
        raise unwritable(folder, error) from error
    where = f"run {folder.name}, log {folder.log}"
    return Session(folder, receipt, secrets, (where,) if notice is None else (notice, where))


def unwritable(folder: RunFolder, error: OSError) -> ConfigurationError:
    """What is said where a run cannot even begin its records."""
    return ConfigurationError(
        "the run's records cannot be written",
        where=str(folder.path),
        why=error.strerror or str(error),
        fix="free some space, or set runs=FOLDER",
    )


def first_receipt(
    *,
    folder: RunFolder,
    plan: Plan,
    argv: Sequence[str],
    config: Mapping[str, Any],
    environment: Environment,
    machine: MachineFacts,
    checkpoint: CheckpointFacts,
) -> Receipt:
    """The receipt of a run that has not begun."""
    return Receipt(
        run=folder.name,
        toolkit=toolkit.__version__,
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        recipe=plan.recipe,
        config=config,
        plan=plain(plan.to_json()),
        argv=argv,
        env=environment.values,
        dropped=environment.dropped,
        machine=plain(machine),
        files={
            "path": plan.view.path,
            "view_digest": plan.view.digest,
            "index_sha256": checkpoint.index_sha256,
            "bytes": dict(checkpoint.files),
        },
    )


def answer_record(answer: Answer) -> dict[str, Any]:
    """The first answer, as the receipt keeps it."""
    return {
        "question": answer.question,
        "text": answer.text,
        "tokens": len(answer.tokens),
        "finish_reason": answer.finish_reason,
        "seconds": answer.seconds,
    }


def capacity_record(found: Comparison) -> dict[str, Any]:
    """The KV cache as the engine reported it beside the plan, as the receipt keeps it."""
    return {"reported": plain(found.reported), "blocks": found.blocks, "blocks_apart": found.blocks_apart}


def finding_records(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings, as the receipt keeps them."""
    return [{**plain(finding), "severity": finding.severity.value} for finding in findings]


def plain(value: Any) -> Any:
    """Plain data of nested dataclasses; sets become sorted lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
