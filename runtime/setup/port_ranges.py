"""A range of ports for each lifecycle, so that its servers do not collide with others.

Owns the file that maps agents to ranges. A range belongs to its lifecycle until that is removed; it
is checked once, when it is assigned. It must not open servers.
"""

from __future__ import annotations

import json
import socket
import zlib
from contextlib import closing
from typing import TYPE_CHECKING

from runtime.private_files import make_private, write_whole

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "LOOPWRIGHT_PORT"
FIRST, WIDTH, SLOTS = 20_000, 10, 1200
"""Below the ephemeral ports of common systems."""


class PortSlots:
    """The ranges of one repository."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._given: dict[str, int] | None = None

    def port_of(self, agent_id: str) -> int:
        """Return the first port of an agent's range of ten."""
        given = self._read()
        if agent_id not in given:
            given[agent_id] = self._free(set(given.values()))
            self._write(given)
        return FIRST + given[agent_id] * WIDTH

    def env_of(self, agent_id: str) -> dict[str, str]:
        """Return the variable with the port for an agent, its set-up and its gates."""
        return {VARIABLE: str(self.port_of(agent_id))}

    def give_back(self, agent_id: str) -> None:
        """Release the range; harmless if there is none."""
        given = self._read()
        if given.pop(agent_id, None) is not None:
            self._write(given)

    def _free(self, taken: set[int]) -> int:
        # Other repositories start elsewhere, so that unused ranges do not collide either.
        start = zlib.crc32(bytes(self._file.resolve())) % SLOTS
        slots = [slot % SLOTS for slot in range(start, start + SLOTS)]
        left = [slot for slot in slots if slot not in taken] or slots
        return next((slot for slot in left if _is_free(slot)), left[0])

    def _read(self) -> dict[str, int]:
        if self._given is None:
            try:
                found = json.loads(self._file.read_bytes())
                self._given = {str(agent): int(slot) for agent, slot in found.items()}
            except (OSError, ValueError, AttributeError, TypeError):
                self._given = {}
        return self._given

    def _write(self, given: dict[str, int]) -> None:
        make_private(self._file.parent)
        write_whole(self._file, json.dumps(given).encode("ascii"))


def _is_free(slot: int) -> bool:
    return all(_can_be_bound(FIRST + slot * WIDTH + each) for each in range(WIDTH))


def _can_be_bound(port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
