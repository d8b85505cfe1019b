"""A real `loopwright serve` on a repository, and requests to it over one connection."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = str(Path(sys.executable).with_name("loopwright"))
PATIENCE = 60.0
TOKEN = "a-token-of-the-bench-0123456789"  # noqa: S105  # opens nothing but this
HEAD = {"authorization": f"Bearer {TOKEN}", "accept": "text/html"}
_TICKS = os.sysconf("SC_CLK_TCK")


class Served:
    """A server in a process of its own."""

    def __init__(self, repo: Path, process: subprocess.Popen[str], port: int) -> None:
        self.repo, self.process, self.port = repo, process, port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def get(self, path: str, **head: str) -> bytes:
        """Ask for something; anything but an answer in order is an error."""
        self.connection.request("GET", path, headers=HEAD | head)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status not in (200, 206):
            raise RuntimeError(f"GET {path}: {answer.status} {body[:300]!r}")
        return body

    def post(self, path: str, body: object) -> Any:
        """Have something changed."""
        head = {**HEAD, "accept": "application/json", "content-type": "application/json"}
        self.connection.request("POST", path, json.dumps(body), head)
        answer = self.connection.getresponse()
        told = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"POST {path}: {answer.status} {told[:300]!r}")
        return json.loads(told)

    def took(self, path: str) -> float:
        """Return the seconds that an answer takes."""
        began = time.perf_counter()
        self.get(path)
        return time.perf_counter() - began

    def cpu(self) -> float:
        """Return the processor seconds that the server has used, without those of its children."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / _TICKS


@contextmanager
def served(
    repo: Path, *more: str, settings: str = "", path: Path | None = None
) -> Iterator[Served]:
    """Serve a repository while the block runs; agent programs are looked for in `path` first."""
    if settings:
        (repo / "loopwright.toml").write_text(settings)
    with subprocess.Popen(
        [COMMAND, "serve", "--port", "0", "--json", "--repo", str(repo), *more],
        env={
            **os.environ,
            "LOOPWRIGHT_TOKEN": TOKEN,
            "NO_COLOR": "1",
            "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"],
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line:
                raise RuntimeError("serve did not begin")
            yield Served(repo, process, int(json.loads(line)["url"].rpartition(":")[2]))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
