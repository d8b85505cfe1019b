"""A finding: which code would be used instead of that of the folder, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SHOWN = 3
PYTHON = (
    "make a .venv in each checkout that imports its own code, for example "
    'setup = ["python3 -m venv .venv && .venv/bin/pip install -e ."] in loopwright.toml'
)
NODE = (
    "install the packages in each checkout, for example "
    'setup = ["npm ci"] in loopwright.toml (or with pnpm, yarn, bun)'
)


@dataclass(frozen=True, slots=True)
class ForeignCode:
    """One way in which code of another checkout would be used."""

    what: str
    """What would be used instead of the folder's own code."""
    where: Path
    """The file, link or folder that causes it."""
    remedy: str
    """What a person can do, in one sentence."""
    committed: bool = False
    """Whether it is in the committed files, which an agent can change."""

    @property
    def text(self) -> str:
        """The finding in one line."""
        return f"{self.what} ({self.where}); {self.remedy}"


def told(found: Sequence[ForeignCode]) -> str:
    """Return one text that says why nothing can be judged now."""
    lines = [each.text for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"and {len(found) - _SHOWN} more: `loopwright doctor` names them")
    return "the code of another checkout would be tested: " + "; also ".join(lines)
