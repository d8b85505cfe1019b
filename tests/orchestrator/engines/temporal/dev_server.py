"""The development server of Temporal, for as long as a test session needs one."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 120.0
PROGRAM = Path(sys.executable).parent / "temporal"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def listens(port: int) -> bool:
    """Tell whether somebody takes connections there."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextmanager
def dev_server(folder: Path, *more: str, port: int = 0) -> Iterator[str]:
    """Run a server, and return where it listens; it keeps nothing unless `more` says so."""
    port = port or free_port()
    command = (str(PROGRAM), "server", "start-dev", "--headless", "--ip", "127.0.0.1",
               "--port", str(port), "--log-level", "error", *more)  # fmt: skip
    with (folder / "temporal.log").open("ab") as log:
        server = subprocess.Popen(  # our own tool
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={"HOME": str(folder)}
        )
    try:
        wait_until(lambda: listens(port), (folder / "temporal.log").read_text, PATIENCE)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)
