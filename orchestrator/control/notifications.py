"""What `loopwright notify` does: lists what was told, and sends a test through each channel.

Reads beside a live runner. Must not send what waits: that is the runner's business.
"""

from __future__ import annotations

import os
from secrets import token_hex
from typing import TYPE_CHECKING, TypedDict

from lifecycle.clock import SystemClock
from lifecycle.notify.channel import with_names
from lifecycle.notify.message import TEST, Notification
from orchestrator.config.known_secrets import masker_of
from orchestrator.control.open_store import runner_of, store_of
from orchestrator.errors import OrchestratorError
from orchestrator.notify.channels import ChannelSender, ring_terminal
from orchestrator.notify.errors import ChannelError
from orchestrator.notify.forms import NotificationsForm, channels, listed, message, reached_at
from orchestrator.notify.secret_values import secrets_of
from runtime.commands import CommandRunner
from runtime.process import TerminalManager

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore


class NotifyError(OrchestratorError):
    """What was asked of the channels cannot be done."""


class TestedForm(TypedDict):
    """How a test went in one channel."""

    channel: str
    kind: str
    ok: bool
    problem: str


async def page(
    repo: Path, settings: Settings, *, before: int | None, limit: int
) -> NotificationsForm:
    """Return what was told, the newest first, and how each channel does."""
    served_at = str((runner_of(repo) or {}).get("url", ""))
    address = reached_at(settings.public_url, served_at)
    async with store_of(repo) as store:
        return await page_of(
            store, settings, repo=repo, address=address, before=before, limit=limit
        )


async def page_of(  # noqa: PLR0913  # all by name
    store: SqliteStore,
    settings: Settings,
    *,
    repo: Path,
    address: str,
    before: int | None,
    limit: int,
) -> NotificationsForm:
    """Return the same from an open store."""
    found = await store.notifications.list(before=before, limit=limit)
    uses = await store.notifications.uses()
    return {
        "items": [
            listed(number, each, sends, repository=str(repo), address=address)
            for number, each, sends in found
        ],
        "next": found[-1][0] if len(found) == limit else None,
        "channels": channels(with_names(settings.notify), uses),
    }


async def test(repo: Path, settings: Settings, *, only: str | None) -> list[TestedForm]:
    """Send a message through each channel, or through one, and return how it went."""
    named = with_names(settings.notify)
    if not named:
        raise NotifyError(
            "no channel is configured; add a [[notify]] entry to loopwright.toml or to your own "
            "config.toml, as docs/how-to/notifications.md shows"
        )
    if only is not None and only not in named:
        raise NotifyError(f"there is no channel {only!r}; there are {', '.join(named)}")
    masker = masker_of(os.environ, settings.pass_env)
    masker.learn(secrets_of(named.values(), repo=repo, environ=os.environ))
    clock = SystemClock()
    served_at = str((runner_of(repo) or {}).get("url", ""))
    told = message(
        Notification(
            id=f"msg_test_{token_hex(8)}",
            at=clock.now(),
            type=TEST,
            text="This is a test of the notifications; nothing needs you",
            command="loopwright notify list",
        ),
        repository=str(repo),
        address=reached_at(settings.public_url, served_at) or settings.public_url,
    )
    terminals = TerminalManager(repo, masker=masker)
    sender = ChannelSender(
        repo=repo,
        environ=os.environ,
        commands=CommandRunner(terminals),
        now=clock.now,
        ring=ring_terminal,
    )
    made: list[TestedForm] = []
    try:
        for name, channel in named.items():
            if only in (None, name):
                problem = ""
                try:
                    await sender.send(channel, told)
                except ChannelError as failure:
                    problem = masker.mask(str(failure))
                made.append(
                    {"channel": name, "kind": channel.kind, "ok": not problem, "problem": problem}
                )
    finally:
        await terminals.aclose(settings.stop_grace)
    return made
