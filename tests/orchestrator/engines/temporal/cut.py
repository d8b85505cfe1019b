"""A network between a machine and the server that can be cut: what is sent is then swallowed."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1 << 16


class Network:
    """Takes connections at an address of its own and carries what is sent to another."""

    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self._to = (host, int(port))
        self._door = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._door]
        self.there = threading.Event()
        """While set, what goes to the server is swallowed."""
        self.back = threading.Event()
        """The same for what comes from it."""
        threading.Thread(target=self._take, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._door.getsockname()[1]}"

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

    @staticmethod
    def _carry(source: socket.socket, to: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
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
