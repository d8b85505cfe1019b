"""The summary that an attempt is held for: shown, edited, and approved only as it was shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lifecycle.audit import Audit
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.control.open_store import known, store_of
from orchestrator.control.summaries import Summaries
from orchestrator.terminal.text import now

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.control.summaries import ShownSummary


async def held_summary(repo: Path, agent_id: str) -> tuple[ShownSummary, str]:
    """Return what the next attempt will be told, and the text with which an edit begins."""
    settings = load_settings(repo, environ=os.environ)
    masker = masker_of(os.environ, settings.pass_env)
    async with store_of(repo) as store:
        record = await known(store, agent_id, repo)
        found = Summaries(repo, store, record, settings, masker)
        return await found.show(None, at=now()), await found.to_edit(at=now())


async def replace_summary(repo: Path, agent_id: str, text: str, *, by: str, version: str) -> None:
    """Put a person's text in its place; SummaryError if it is another one by now."""
    settings = load_settings(repo, environ=os.environ)
    masker = masker_of(os.environ, settings.pass_env)
    async with store_of(repo) as store:
        record = await known(store, agent_id, repo)
        found = Summaries(repo, store, record, settings, masker)
        audit = Audit(store.trail, now=now, masker=masker)
        await found.replace(text, audit, by=by, at=now(), version=version)
