"""A network between a machine and a server: it can be cut, be slow, and lose what it carries.

What is sent while it is cut is swallowed. What is lost is sent again by TCP, so it only comes late:
`STALL` seconds after the rest.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1 << 16
STALL = 0.3
"""The least that TCP waits before it sends something again, and the way there."""


class Network:
    """Takes connections at an address of its own and carries what is sent to another."""

    def __init__(
        self, to: str, *, host: str = "127.0.0.1", delay: float = 0.0, loss: float = 0.0
    ) -> None:
        there, _, port = to.rpartition(":")
        self._to, self._host, self._delay, self._loss = (there, int(port)), host, delay, loss
        self._door = socket.create_server((host, 0))
        self._open: list[socket.socket] = [self._door]
        self.there = threading.Event()
        """While set, what goes to the server is swallowed."""
        self.back = threading.Event()
        """The same for what comes from it."""
        threading.Thread(target=self._take, daemon=True).start()

    @property
    def address(self) -> str:
        return f"{self._host}:{self._door.getsockname()[1]}"

    def mend(self) -> None:
        """Carry everything again; what was swallowed is lost, so connections are broken off."""
        self.there.clear()
        self.back.clear()
        for each in self._open[1:]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                try:
                    far = socket.create_connection(self._to)
                except OSError:
                    near.close()
                    continue
                self._open += [near, far]
                for ends in ((near, far, self.there), (far, near, self.back)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if self._delay:
                    is_lost = random.random() < self._loss  # noqa: S311  # no secret
                    time.sleep(self._delay + STALL * is_lost)
                if not cut.is_set():
                    to.sendall(data)
        with suppress(OSError):
            to.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def network(to: str) -> Iterator[Network]:
    """Give a network to this address."""
    made = Network(to)
    try:
        yield made
    finally:
        made.close()
