"""A fleet whose second worker is in a network namespace, behind a slow way that loses packets.

It reaches the server and the repository by that way alone. Linux, and root, only.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.lifecycle.world import git
from tests.orchestrator.engines.temporal.cut import Network
from tests.orchestrator.engines.temporal.faults.fleet import Fleet, main
from tests.runtime.remote.ends import serving

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FAR = "b"
NAMESPACE = "loopwright-far"
HERE, THERE = "10.77.0.1", "10.77.0.2"
DELAY, LOSS = 0.04, 0.02
"""Seconds each way, and how much of what is sent has to be sent again."""


class FarFleet(Fleet):
    """A fleet with one worker far away."""

    def __init__(self, folder: Path, lease: float, workers: Sequence[str]) -> None:
        """Have the namespace, and the repository served into it."""
        self._ip("netns", "add", NAMESPACE)
        self._ip("link", "add", "far0", "type", "veth", "peer", "name", "far1", "netns", NAMESPACE)
        self._ip("address", "add", f"{HERE}/24", "dev", "far0")
        self._ip("link", "set", "far0", "up")
        self._ip("-n", NAMESPACE, "address", "add", f"{THERE}/24", "dev", "far1")
        self._ip("-n", NAMESPACE, "link", "set", "far1", "up")
        self._ip("-n", NAMESPACE, "link", "set", "lo", "up")
        super().__init__(folder, lease, workers)
        self._served = ExitStack()
        web = self._served.enter_context(serving(folder, wants=None))
        self._way = self._slow(web.port)
        git(folder / FAR, "remote", "set-url", "origin", f"http://{self._way.address}/bare.git")

    @staticmethod
    def _slow(port: int) -> Network:
        return Network(f"127.0.0.1:{port}", host=HERE, delay=DELAY, loss=LOSS)

    def network_of(self, role: str) -> Network:
        """Return the slow way for the one that is far away."""
        return self._slow(self.port) if role == FAR else super().network_of(role)

    def place_of(self, role: str) -> tuple[str, ...]:
        """Return what runs a command in the namespace."""
        return ("ip", "netns", "exec", NAMESPACE) if role == FAR else ()

    def close(self) -> None:
        """End everything, and leave no network behind."""
        super().close()
        self._served.close()
        self._way.close()
        self._ip("netns", "delete", NAMESPACE)

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(("ip", *words), check=True)


if __name__ == "__main__":
    main(FarFleet, *sys.argv[1:])
