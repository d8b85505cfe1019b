"""The summary that an attempt is held for: shown, edited, and approved only as it was shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lifecycle.audit import Audit
from orchestrator.control.summaries import opened_summaries
from orchestrator.terminal.text import now

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.control.summaries import ShownSummary


async def held_summary(repo: Path, agent_id: str) -> tuple[ShownSummary, str]:
    """Return what the next attempt will be told, and the text with which an edit begins."""
    async with opened_summaries(repo, agent_id, os.environ) as (_, _, found):
        return await found.show(None, at=now()), await found.to_edit(at=now())


async def replace_summary(repo: Path, agent_id: str, text: str, *, by: str, version: str) -> None:
    """Put a person's text in its place; SummaryError if it is another one by now."""
    async with opened_summaries(repo, agent_id, os.environ) as (store, _, found):
        audit = Audit(store.trail, now=now, masker=found.masker)
        await found.replace(text, audit, by=by, at=now(), version=version)
