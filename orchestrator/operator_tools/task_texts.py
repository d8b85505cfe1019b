"""What can be read of each task by address: the task itself, its diff, its summary."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from communication.errors import SignalError
from communication.words import shown

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEME = "loopwright://tasks/"
MOST_LISTED = 50
"""Tasks of one listing; `list` has the others."""
_ADDRESS = re.compile(re.escape(SCHEME) + r"([^/?#]+)(?:/([a-z]+))?\Z")


class _Part(NamedTuple):
    """One text of a task."""

    told: str
    media: str
    command: str
    options: tuple[str, ...] = ()


_PARTS = {
    "": _Part("state, reason and attempts", "text/plain", "show"),
    "diff": _Part("what its work changed", "text/x-diff", "diff", ("--no-pager",)),
    "summary": _Part("what its next attempt will be told", "text/markdown", "summary"),
}


class TaskTexts:
    """The texts of the tasks of one repository; `output` runs a command that only reads."""

    def __init__(self, output: Callable[[str, list[str], list[str]], str]) -> None:
        self._output = output

    def listing(self) -> list[dict[str, Any]]:
        """Return them as the protocol lists resources, the newest tasks first."""
        try:
            said = json.loads(self._output("ps", ["--json", f"--limit={MOST_LISTED}"], []))
        except SignalError:
            return []
        return [
            {
                "uri": _address(row["agent_id"], name),
                "name": f"{row['agent_id']} {name}".strip(),
                "description": f"{row['task']}: {part.told}",
                "mimeType": part.media,
            }
            for row in said["lifecycles"]
            for name, part in _PARTS.items()
        ]

    def templates(self) -> list[dict[str, Any]]:
        """Return the forms of their addresses."""
        return [
            {
                "uriTemplate": _address("{task}", name, bare=True),
                "name": f"task {name}".strip(),
                "description": f"Of a task, by its id: {part.told}.",
                "mimeType": part.media,
            }
            for name, part in _PARTS.items()
        ]

    def read(self, uri: str) -> tuple[str, str]:
        """Return a text and its media type; SignalError says why there is none."""
        found = _ADDRESS.match(uri)
        part = _PARTS.get(found[2] or "") if found is not None else None
        if found is None or part is None:
            forms = ", ".join(_address("TASK", name) for name in _PARTS)
            raise SignalError(f"there is no resource {shown(uri)}; there are {forms}")
        return self._output(part.command, [*part.options], [unquote(found[1])]), part.media


def _address(task: str, part: str, *, bare: bool = False) -> str:
    named = task if bare else quote(task, safe="")
    return f"{SCHEME}{named}{'/' if part else ''}{part}"
