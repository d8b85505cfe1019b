"""How a runner tells who started it that it is ready: by datagram, as systemd defines it.

systemd names the socket in NOTIFY_SOCKET for a service of type `notify`; `--detach` does the same.
Must not matter to a runner that nobody waits for.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

VARIABLE = "NOTIFY_SOCKET"
_READY = "READY=1"
_STATUS = "STATUS="
_LONGEST_FOLDER = 60
"""Characters; the address of a socket has room for about a hundred."""


def ready(status: str = "") -> None:
    """Tell once that it is ready, if anybody asked; `status` is one line for people."""
    address = os.environ.pop(VARIABLE, "")
    if not address:
        return
    lines = [_READY, *([_STATUS + status.replace("\n", " ")] if status else [])]
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # noqa: FBT003  # that is its form
        sock.sendto("\n".join(lines).encode(), name)


class ReadinessSocket:
    """Where a process that we start says that it is ready."""

    def __enter__(self) -> Self:
        usual = tempfile.gettempdir()
        place = usual if len(usual) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108  # a folder of our own in it
        self._folder = Path(tempfile.mkdtemp(prefix="loopwright-", dir=place))
        self.address = str(self._folder / "notify")
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(self.address)
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def status(self, wait_s: float) -> str | None:
        """Return what it says of itself once it is ready; None if it is not within that time."""
        self._sock.settimeout(wait_s)
        try:
            lines = self._sock.recv(4096).decode(errors="replace").split("\n")
        except TimeoutError:
            return None
        if _READY not in lines:
            return None
        return next((each[len(_STATUS) :] for each in lines if each.startswith(_STATUS)), "")
