"""What `doctor` finds out about the channels for notifications. Sends nothing."""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.notify.channel import with_names
from lifecycle.paths import Paths
from orchestrator.control.open_store import store_of
from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis
from orchestrator.notify import apprise_urls
from orchestrator.notify.channels import key_of
from orchestrator.notify.errors import ChannelError
from orchestrator.notify.secret_values import value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lifecycle.notify.channel import NotifyChannel
    from lifecycle.notify.message import ChannelUse
    from lifecycle.settings import Settings

TRY = "`loopwright notify test` sends one message through it"


def notifications(
    repo: Path, settings: Settings, environ: Mapping[str, str]
) -> Iterator[Diagnosis]:
    """Diagnose each channel: whether it can send, and whether it fails at the moment."""
    named = with_names(settings.notify)
    uses = {each.channel: each for each in _uses(repo)} if named else {}
    for name, channel in named.items():
        what = f"notify {name}"
        if problem := _problem(channel, repo, environ):
            said, _, mend = problem.partition("; ")
            yield Diagnosis(BAD, what, said, mend)
        elif (use := uses.get(name)) is not None and use.failing_since is not None:
            yield Diagnosis(WARN, what, f"{use.waiting} wait: {use.problem}", TRY)
        else:
            yield Diagnosis(OK, what, f"{channel.kind} is configured")


def _problem(channel: NotifyChannel, repo: Path, environ: Mapping[str, str]) -> str:
    try:
        values = {
            part: value_of(getattr(channel, part), repo=repo, environ=environ)
            for part in ("webhook", "secret", "url")
        }
        if channel.url:
            apprise_urls.check(values["url"])
        key_of(values["secret"])
    except ChannelError as problem:
        return str(problem)
    tool = "osascript" if sys.platform == "darwin" else "notify-send"
    if channel.desktop and shutil.which(tool) is None:
        return f"{tool} is not installed; install libnotify-bin, or use another channel"
    return ""


def _uses(repo: Path) -> tuple[ChannelUse, ...]:
    async def ask() -> tuple[ChannelUse, ...]:
        async with store_of(repo) as store:
            return await store.notifications.uses()

    try:
        return asyncio.run(ask()) if Paths.of(repo).database.exists() else ()
    except LifecycleError:
        return ()  # told by the check of the records
