"""Plain HTTP to the server that was just started: the standard library's client, as importing httpx takes 0.3 s.

No proxy is ever used and no redirect followed: the server is on this machine, whatever the shell's variables say.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.planning.plan import ServerAddress

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  (translated, not listened on)


class NoReplyError(Exception):
    """Nothing listens, or the connection ended before a reply was complete."""


@dataclass(frozen=True)
class Reply:
    """A status and a body."""

    status: int
    body: str

    def json(self) -> Any:
        """The body as JSON; None where it is something else."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True)
class Client:
    """Asks one server; every request has a connection of its own."""

    address: ServerAddress
    key: str | None = None

    def get(self, path: str, timeout_s: float) -> Reply:
        """GET; raises NoReplyError."""
        return self._request("GET", path, None, timeout_s)

    def post(self, path: str, body: Mapping[str, Any], timeout_s: float) -> Reply:
        """POST a JSON body; raises NoReplyError."""
        return self._request("POST", path, json.dumps(body), timeout_s)

    def _request(self, method: str, path: str, body: str | None, timeout_s: float) -> Reply:
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        host = connect_host(self.address.host)
        connection = http.client.HTTPConnection(host, self.address.port, timeout=timeout_s)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.read().decode(errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            raise NoReplyError(_words(error)) from error
        finally:
            connection.close()


def connect_host(host: str) -> str:
    """Where to connect to a server that listens on `host`."""
    return ANY_ADDRESS.get(host, host)


def _words(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection was closed without a reply"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was closed in the middle of a reply"
    if isinstance(error, socket.timeout):
        return "no reply in time"
    return str(error) or type(error).__name__
