"""Who receives notifications in tests: a real HTTP server that checks signatures, and a file."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "whsec_" + base64.b64encode(b"a secret of the tests alone").decode()


def verified(headers: dict[str, str], body: bytes, secret: str = SECRET) -> bool:
    """Check a signature as the page of the documentation tells people to."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    given = [each.partition(",")[2] for each in headers["webhook-signature"].split()]
    return any(hmac.compare_digest(wanted, each) for each in given)


@dataclass
class Receiver:
    """What a webhook received, in order."""

    url: str = ""
    refuse: int = 0
    """Requests that are still to be answered with `status`, and to be repeated in 7 s."""
    status: int = 503
    got: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    signed: list[bool] = field(default_factory=list)


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Serve on any free port."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            if made.refuse:
                made.refuse -= 1
                made.refused.append(headers.get("webhook-id", ""))
                self._answer(made.status)
                return
            made.signed.append(verified(headers, body))
            made.ids.append(headers["webhook-id"])
            made.got.append(json.loads(body))
            self._answer(204)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            if status == made.status:
                self.send_header("retry-after", "7")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


def told(file: Path) -> list[dict[str, Any]]:
    """Return what a command channel appended to a file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
