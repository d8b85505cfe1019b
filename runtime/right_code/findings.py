"""What was found: which code would be used instead of that of the folder, and what to do."""

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
class Finding:
    """One way on which code from elsewhere would be used."""

    what: str
    """What would be used instead of the folder's own."""
    where: Path
    """The file, link or folder that leads there."""
    remedy: str
    """What a person does about it, in one sentence."""
    committed: bool = False
    """It comes with the files of the folder, so whoever commits can change it."""

    @property
    def text(self) -> str:
        """Say it in one line."""
        return f"{self.what} ({self.where}); {self.remedy}"


def told(found: Sequence[Finding]) -> str:
    """Say in one text why nothing may be judged as things are."""
    lines = [each.text for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"and {len(found) - _SHOWN} more: `loopwright doctor` names them")
    return "not the code of the commit would be tested: " + "; also ".join(lines)
