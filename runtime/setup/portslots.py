"""A range of ports for each lifecycle, by which its servers get in nobody's way.

Owns the file that says who has which. A range stays with its lifecycle until that is removed; it is
tried out once, when it is given.
"""

from __future__ import annotations

import json
import socket
import zlib
from contextlib import closing
from typing import TYPE_CHECKING

from runtime.ownership import make_private

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "LOOPWRIGHT_PORT"
FIRST, WIDTH, SLOTS = 20_000, 10, 1200
"""Below the ports that systems give out by themselves."""


class PortSlots:
    """The ranges of one repository."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._given: dict[str, int] | None = None

    def port_of(self, agent_id: str) -> int:
        """Return the first port of an agent's range; the next nine are its own, too."""
        given = self._read()
        if agent_id not in given:
            given[agent_id] = self._free(set(given.values()))
            self._write(given)
        return FIRST + given[agent_id] * WIDTH

    def env_of(self, agent_id: str) -> dict[str, str]:
        """Return the variable that tells an agent, its set-up and its gates of it."""
        return {VARIABLE: str(self.port_of(agent_id))}

    def give_back(self, agent_id: str) -> None:
        """Let others have it; harmless when there is none."""
        given = self._read()
        if given.pop(agent_id, None) is not None:
            self._write(given)

    def _free(self, taken: set[int]) -> int:
        # Other repositories begin elsewhere, so that ranges which rest do not meet either.
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
        fresh = self._file.with_name(f"{self._file.name}.new")
        fresh.write_text(json.dumps(given))
        fresh.replace(self._file)


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
