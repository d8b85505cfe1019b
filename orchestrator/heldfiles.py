"""Which files that count without any setting wait for a person, asked at the moment of their use.

Owns a reading of its own. What waits, and why, is decided in `orchestrator.approval`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.approval.approvals import Approvals
from orchestrator.approval.cells import name_of

if TYPE_CHECKING:
    from pathlib import Path


class HeldFiles:
    """Names them for one repository."""

    def __init__(self, repo: Path) -> None:
        self._approvals = Approvals(repo)

    def __call__(self) -> frozenset[str]:
        """Return their names as they are now."""
        self._approvals.begin()
        return frozenset(name_of(cell)[0] for cell in self._approvals.held)
