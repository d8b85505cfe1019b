"""As much of GitHub as waiting for it takes, in a process of its own: `python -m bench.forge BARE`.

It keeps one pull request per branch that it is asked about, knows ETags, and lets the measuring
script say what the checks are. It prints its port.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPO = "/repos/bench/bench"
PAGE = 100
AT = "2020-01-01T00:00:00Z"


class Forge:
    """Answers by method and path."""

    def __init__(self, bare: Path) -> None:
        self._bare = bare
        self.address = ""
        self._pulls: dict[str, dict[str, Any]] = {}
        self._check: dict[str, Any] = {"id": 1, "status": "in_progress"}

    def answer(self, method: str, target: str, body: bytes) -> object:
        """Return what to answer as JSON; an empty list for what is of no interest."""
        parts = urlsplit(target)
        path, query = parts.path, parse_qs(parts.query)
        if path == "/_check":
            self._check = json.loads(body)
        elif path == f"{REPO}/pulls" and method == "GET":
            return self._listed(query)
        elif found := re.fullmatch(rf"{REPO}/pulls/(\d+)", path):
            return list(self._pulls.values())[int(found[1]) - 1]
        elif found := re.fullmatch(rf"{REPO}/git/ref/heads/(.+)", path):
            return {"object": {"sha": self._head(found[1])}}
        return self._plain(path)

    def _plain(self, path: str) -> object:
        if path == REPO:
            return {"default_branch": "main", "full_name": "bench/bench"}
        if path.endswith("/check-runs"):
            run = {"name": "unit", "output": {"title": "step Run pytest"}, **self._check}
            return {"total_count": 1, "check_runs": [run]}
        return {"statuses": []} if path.endswith("/status") else []

    def _listed(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        if "head" not in query:
            first = PAGE * (int(query.get("page", ["1"])[0]) - 1)
            return list(self._pulls.values())[first : first + PAGE]
        branch = query["head"][0].partition(":")[2]
        if branch not in self._pulls:
            self._pulls[branch] = self._opened(branch, len(self._pulls) + 1)
        return [self._pulls[branch]]

    def _opened(self, branch: str, number: int) -> dict[str, Any]:
        repo = {"full_name": "bench/bench"}
        return {
            "number": number, "state": "open", "title": branch, "mergeable": True,
            "mergeable_state": "clean", "html_url": f"http://bench/bench/bench/pull/{number}",
            "head": {"ref": branch, "sha": self._head(branch), "repo": repo},
            "base": {"ref": "main", "sha": self._head("main"), "repo": repo},
            "created_at": AT, "updated_at": AT,
        }  # fmt: skip

    def _head(self, branch: str) -> str:
        asked = ("git", "rev-parse", f"refs/heads/{branch}")
        return subprocess.run(
            asked, cwd=self._bare, capture_output=True, text=True, check=False
        ).stdout.strip()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer all requests of one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?i)content-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                method, target, _ = head.split(" ", 2)
                writer.write(self._reply(method, target, head, body))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _reply(self, method: str, target: str, head: str, body: bytes) -> bytes:
        said = json.dumps(self.answer(method, target, body)).encode()
        etag = f'"{hashlib.md5(said, usedforsecurity=False).hexdigest()}"'
        if f"if-none-match: {etag}" in head.lower():
            return f"HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n".encode()
        lines = [
            "HTTP/1.1 200 OK", "Content-Type: application/json", f"ETag: {etag}",
            f"Content-Length: {len(said)}", *self._next_page(target),
        ]  # fmt: skip
        return "\r\n".join((*lines, "\r\n")).encode() + said

    def _next_page(self, target: str) -> list[str]:
        """Return the header that names the next page of the list, if there is one."""
        query = parse_qs(urlsplit(target).query)
        page = int(query.get("page", ["1"])[0])
        if not target.startswith(f"{REPO}/pulls?") or len(self._pulls) <= PAGE * page:
            return []
        more = f"http://{self.address}{REPO}/pulls?per_page={PAGE}&state=open&page={page + 1}"
        return [f'Link: <{more}>; rel="next"']


async def main() -> None:
    """Serve until killed."""
    forge = Forge(Path(sys.argv[1]))
    server = await asyncio.start_server(forge.talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    forge.address = f"127.0.0.1:{port}"
    print(port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
