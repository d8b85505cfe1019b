"""The last lines of a terminal, drawn in place again and again; other lines are told above them.

Owns cursor, sizes and what stands on the screen. Must not know what the lines say: they come in
their colours, safe for a terminal. While a terminal takes nothing, only the newest of it waits.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import TYPE_CHECKING, TextIO

from orchestrator.terminal.background_output import BackgroundStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Wrapped = Callable[[int], list[str]]
    """Returns a text in lines of so many columns."""

ROOM_FOR_A_KEY = 4
"""Columns at the right that stay free: the terminal writes ^C behind the last line."""
REMEMBERED = 200
"""Lines above that are told once more when the size of the terminal changes."""
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_AGAIN = "\x1b[H\x1b[2J"
"""Begins an empty screen."""
_NARROWEST = 20


class LiveArea:
    """Lines at the end of a terminal that are drawn in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: list[str] = []
        self._above: deque[Wrapped] = deque(maxlen=REMEMBERED)
        self._held: deque[Wrapped] = deque(maxlen=REMEMBERED)
        """Lines above that are still to be told."""
        self._left_out = 0
        self._size = self._measured()
        self._open = False

    @property
    def width(self) -> int:
        """How many columns a line may have."""
        return max(self._size[0] - ROOM_FOR_A_KEY, _NARROWEST)

    @property
    def height(self) -> int:
        """How many lines there are."""
        return self._size[1]

    def open(self) -> None:
        """Begin."""
        self._open = True
        self._write(_HIDE)

    def print(self, wrapped: Wrapped) -> None:
        """Tell lines above."""
        self._above.append(wrapped)
        self._left_out += len(self._held) == self._held.maxlen
        self._held.append(wrapped)
        if not self._behind:
            self._write(self._erased() + self._told() + _lines(self._shown))

    def show(self, lines: Callable[[], list[str]]) -> None:
        """Draw the lines that it returns instead of those there are, unless they are the same.

        What no longer fits a terminal of another size is begun anew: each terminal makes something
        else of lines that are longer than it is wide. One that takes nothing is drawn on later.
        """
        if self._behind:
            return
        size = self._measured()
        if size != self._size:
            self._size = size
            self._shown = lines()
            self._held.clear()
            self._write(_AGAIN + self._fitting() + _lines(self._shown))
        elif (new := lines()) != self._shown or self._held:
            start = self._erased() + self._told()
            self._shown = new
            self._write(start + _lines(self._shown))

    def leave(self) -> None:
        """Let the lines stand, and show the cursor again."""
        if self._open:
            self._open = False
            self._write(_SHOW)

    def close(self) -> None:
        """Take the lines away, and leave the terminal as it was."""
        if not self._open:
            return
        self._open = False
        start, self._shown = self._erased(), []
        self._write(start + self._told() + _SHOW)

    @property
    def _behind(self) -> bool:
        """Whether the terminal takes nothing at the moment."""
        return isinstance(self._stream, BackgroundStream) and self._stream.behind

    def _told(self) -> str:
        """Return the lines that are to be told above, and tell them no more."""
        made = [line for wrapped in self._held for line in wrapped(self.width)]
        if self._left_out:
            made.insert(0, f"({self._left_out} lines before these were left out)")
        self._held.clear()
        self._left_out = 0
        return _lines(made)

    def _fitting(self) -> str:
        """Return the lines above that there is room for."""
        room, kept = self.height - len(self._shown) - 1, list[str]()
        for line in reversed(self._above):
            made = line(self.width)
            room -= sum(1 + len(each) // self.width * ("://" in each) for each in made)
            if room < 0:
                break
            kept = [*made, *kept]
        return _lines(kept)

    def _erased(self) -> str:
        return f"\r\x1b[{len(self._shown)}A\x1b[J" if self._shown else "\r\x1b[J"

    def _measured(self) -> tuple[int, int]:
        """Return columns and lines; as the variables say only where the terminal does not."""
        found = os.terminal_size((0, 0))
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found = os.get_terminal_size(self._stream.fileno())
        named = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
        said = [int(text) if text.isdigit() and int(text) else 0 for text in named]
        return found.columns or said[0] or 80, found.lines or said[1] or 24

    def _write(self, text: str) -> None:
        # A closed terminal must not end the loops that it watched.
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
