"""Group `server`: where clients connect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass
class ServerConfig:
    """The HTTP server."""

    host: str = "127.0.0.1"
    """Address to listen on; any other than the loopback needs api_key_file."""
    port: int = 8000
    """TCP port."""
    api_key_file: Optional[str] = None
    """A file whose first line is the key that clients must send; it is never written to a receipt."""
