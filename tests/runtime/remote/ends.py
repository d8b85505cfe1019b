"""Other ends for a git remote: a real smart HTTP server on loopback, and an ssh that stays here."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import threading
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from runtime.remote.remote import GitRemote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

TOKEN = "canary-token-7f3a9"  # noqa: S105  # to be looked for
PAIR = b64encode(f"bot:{TOKEN}".encode()).decode()
HEADER = {"Authorization": f"Basic {PAIR}"}


@dataclass
class Far:
    """A repository and another one that it knows as its remote."""

    repo: Path
    there: Path
    git: Callable[..., str]

    def commit(self, message: str) -> str:
        """Commit on main here."""
        self.git(self.repo, "commit", "-q", "--allow-empty", "-m", message)
        return self.git(self.repo, "rev-parse", "HEAD")

    def tip(self, branch: str) -> str:
        """Return where a branch is there."""
        return self.git(
            self.there, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}"
        )

    def land(self, branch: str, sha: str) -> None:
        """Set a branch there, as somebody else."""
        self.git(self.repo, "push", "-q", "-f", str(self.there), f"{sha}:refs/heads/{branch}")

    def remote(self, url: str | None = None, **more: Any) -> GitRemote:
        """Return what is tested."""
        return GitRemote(self.repo, url=url or str(self.there), **{"environ": os.environ, **more})


@dataclass
class Web:
    """What the server does, and what was asked of it."""

    root: Path
    port: int = 0
    scheme: str = "http"
    wants: str | None = HEADER["Authorization"]
    """What signs one in; None lets everybody in."""
    answer: tuple[int, Mapping[str, str], bytes] | None = None
    """Given to everybody who is signed in, in place of what git says."""
    hold: bool = False
    """Keep everybody waiting until the end."""
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and headers (lower case) of each request."""
    held: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ended: threading.Event = field(default_factory=threading.Event)

    async def until_held(self) -> None:
        """Wait until somebody is kept waiting."""
        async with asyncio.timeout(20):
            while not self.held.acquire(blocking=False):  # noqa: ASYNC110  # a thread tells
                await asyncio.sleep(0.01)

    def url(self, name: str = "remote.git") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/{name}"

    def heard(self, word: str) -> bool:
        """Whether any request said this in a header."""
        return any(word in value for _, headers in self.seen for value in headers.values())


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _serve(self) -> None:
        web = self.server.web
        headers = {key.lower(): value for key, value in self.headers.items()}
        web.seen.append((self.path, headers))
        body = self._body(headers)
        if web.hold:
            web.held.release()
            web.ended.wait()
            self.close_connection = True
            return
        if web.wants is not None and headers.get("authorization") != web.wants:
            self._answer(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
        elif web.answer is not None:
            self._answer(*web.answer)
        else:
            self._git(headers, body)

    do_GET = do_POST = do_CONNECT = _serve  # noqa: N815  # named by http.server

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(headers.get("content-length", 0)))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _git(self, headers: Mapping[str, str], body: bytes) -> None:
        path, _, query = self.path.partition("?")
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.server.web.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REMOTE_USER": "bot",
            "CONTENT_TYPE": headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
            "GIT_PROTOCOL": headers.get("git-protocol", ""),
        }
        done = subprocess.run(
            ("git", "http-backend"), env=env, input=body, capture_output=True, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().splitlines())
        status = int(lines.pop("Status", "200").split()[0])
        self._answer(status, lines, content)

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # named by http.server
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, web: Web) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.web = web

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about."""


@contextmanager
def serving(root: Path, **more: Any) -> Iterator[Web]:
    """Serve the repositories below a folder."""
    certificate = more.pop("certificate", None)
    web = Web(root, **more)
    with _Server(web) as server:
        web.port = server.server_address[1]
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            web.scheme = "https"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield web
        finally:
            web.ended.set()
            server.shutdown()
            thread.join()


def self_signed(folder: Path) -> Path:
    """Make a key and a certificate for 127.0.0.1 that nobody vouches for, in one file."""
    file = folder / "server.pem"
    subprocess.run(
        (
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"),
        ),
        check=True,
        capture_output=True,
    )  # fmt: skip
    file.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return file


def fake_ssh(folder: Path) -> tuple[dict[str, str], Path]:
    """Put an ssh on PATH that runs here what it should run there; return environment and log."""
    folder.mkdir()
    log = folder / "log"
    program = folder / "ssh"
    program.write_text(
        "#!/bin/sh\n"
        f"printf '%s\\n' \"agent=$SSH_AUTH_SOCK\" \"$@\" >> '{log}'\n"
        f"env | grep -c GIT_CONFIG_VALUE_ >> '{log}'\n"
        'for last; do :; done\nexec sh -c "$last"\n'
    )
    program.chmod(0o755)
    path = os.pathsep.join((str(folder), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "SSH_AUTH_SOCK": "/run/agent"}, log
