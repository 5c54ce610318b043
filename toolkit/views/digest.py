"""SHA-256 of plain data and of bytes."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def digest_of(data: Any) -> str:
    """Hexadecimal SHA-256 of plain data: of its JSON text with sorted keys, so that equal data has one digest."""
    return sha256(json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode())
