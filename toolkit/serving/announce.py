"""What `serve` says on stdout, as text or as one JSON document."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from toolkit.config.schema.verbs import Until
from toolkit.engine.answer import Answer
from toolkit.engine.http import connect_host
from toolkit.errors import ToolkitError
from toolkit.planning.plan import ServerAddress
from toolkit.runs.differences import Difference
from toolkit.runs.folder import RunFolder
from toolkit.runs.receipt import Outcome, Receipt

DOCUMENT_SCHEMA = 1


def ready_text(answer: Answer, address: ServerAddress, until: Until) -> str:
    """Question, answer, address and how to ask; the address alone where only readiness was asked for."""
    client = _reachable(address)
    where = f"{address.model} is served at {client.url}/v1"
    if until is Until.ready:
        return where
    lines = [f"question: {answer.question}", f"answer:   {answer.text.strip()}", where, curl(address, answer.question)]
    if until is Until.stopped:
        lines.append("Ctrl-C stops it")
    return "\n".join(lines)


def curl(address: ServerAddress, question: str) -> str:
    """A shell line that asks the server the same question."""
    body = {"model": address.model, "messages": [{"role": "user", "content": question}]}
    key = ""
    if address.api_key_file:
        key = f' -H "Authorization: Bearer $(head -n 1 {shlex.quote(address.api_key_file)})"'
    url = shlex.quote(f"{_reachable(address).url}/v1/chat/completions")
    return f"curl -s {url} -H 'Content-Type: application/json'{key} -d {shlex.quote(json.dumps(body))}"


def ready_document(
    answer: Answer,
    address: ServerAddress,
    receipt: Receipt,
    folder: RunFolder,
    found: Sequence[Difference],
) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "schema": DOCUMENT_SCHEMA,
        "result": "answered",
        "run": folder.name,
        "folder": str(folder.path),
        "receipt": str(folder.receipt),
        "log": str(folder.log),
        "model": address.model,
        "address": f"{_reachable(address).url}/v1",
        "question": answer.question,
        "answer": answer.text,
        "timings": dict(receipt.timings),
        "capacity": receipt.capacity,
        "findings": list(receipt.findings),
        "differences": [asdict(difference) for difference in found],
    }


def failure_document(error: ToolkitError) -> dict[str, Any]:
    """An error as plain data."""
    return {
        "schema": DOCUMENT_SCHEMA,
        "result": "failed",
        "exit_code": error.exit_code,
        "error": {"what": error.what, "where": error.where, "why": error.why, "fix": error.fix},
        "rejected": [asdict(item) for item in error.rejected],
    }


def ended_document(outcome: Outcome) -> dict[str, Any]:
    """The end of a run that a signal stopped before the answer."""
    return {"schema": DOCUMENT_SCHEMA, **asdict(outcome)}


def difference_line(found: Difference) -> str:
    """One difference as a line."""
    return f"differs from the receipt: {found.section} {found.name}: {_cut(found.recorded)} -> {_cut(found.here)}"


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _reachable(address: ServerAddress) -> ServerAddress:
    return ServerAddress(connect_host(address.host), address.port, address.model, address.api_key_file)
