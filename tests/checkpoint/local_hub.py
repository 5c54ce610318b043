"""The small part of a model hub's HTTP interface that a download of one commit uses, on this machine."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class LocalHub:
    """One repository at one commit."""

    repository: str
    revision: str
    files: dict[str, bytes]
    url: str = ""
    gated: bool = False
    break_at: dict[str, int] = field(default_factory=dict)
    """File to the byte after which the connection is cut, once."""
    refused: set[str] = field(default_factory=set)
    """Files that are answered with 410."""
    requests: list[str] = field(default_factory=list)
    """METHOD PATH [RANGE] of every request."""

    def tree(self) -> list[dict]:
        return [
            {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for path, data in self.files.items()
        ]

    def info(self) -> dict:
        siblings = [{"rfilename": entry["path"], "size": entry["size"]} for entry in self.tree()]
        return {"id": self.repository, "sha": self.revision, "siblings": siblings}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: LocalHub


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, path, span = self.server.hub, unquote(urlsplit(self.path).path), self.headers.get("Range", "")
        hub.requests.append(f"{self.command} {path} {span}".strip())
        api, resolve = f"/api/models/{hub.repository}/", f"/{hub.repository}/resolve/"
        if not path.startswith((api, resolve)):
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif hub.gated:
            self.answer(403, b"{}", {"X-Error-Code": "GatedRepo"})
        elif hub.revision not in path:
            self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif path.startswith(api):
            listing = hub.tree() if path.startswith(f"{api}tree/") else hub.info()
            self.answer(200, json.dumps(listing).encode(), {"Content-Type": "application/json"})
        else:
            self.send_file(path.removeprefix(f"{resolve}{hub.revision}/"), span)

    def send_file(self, file: str, span: str) -> None:
        hub = self.server.hub
        if file in hub.refused:
            self.answer(410, b"", {})
            return
        data = hub.files[file]
        headers = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": hub.revision}
        start = int(span.removeprefix("bytes=").partition("-")[0]) if span else 0
        if span:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        cut = hub.break_at.pop(file, None) if self.command == "GET" else None
        self.answer(206 if span else 200, data[start:], headers, cut)

    def answer(self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body if cut is None else body[:cut])
            self.close_connection = cut is not None


@contextmanager
def serving(hub: LocalHub) -> Iterator[LocalHub]:
    server = Server(("127.0.0.1", 0), Handler)
    server.hub = hub
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
