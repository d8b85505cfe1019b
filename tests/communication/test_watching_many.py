"""A thousand subscriptions: nothing is lost and nothing grows with their number but memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from communication.mailbox import Mailbox
from communication.watcher import MailboxWatcher
from tests.communication.hearing import Heard, mail, replace, until, watchers, word

if TYPE_CHECKING:
    from pathlib import Path

MANY = 1000


async def test_a_thousand_folders_lose_no_breakpoint(tmp_path: Path) -> None:
    assert watchers() == []
    files = [tmp_path / str(number) / "communications.json" for number in range(MANY)]
    ears = [Heard() for _ in files]
    async with MailboxWatcher() as watcher:
        for number, (file, heard) in enumerate(zip(files, ears, strict=True)):
            file.parent.mkdir()
            watcher.subscribe(
                Mailbox(file), f"agent-{number}", spawn_id="s", task_id=None, on_reading=heard
            )
            if number % 7 == 0:
                # Others write while the watch is still growing.
                replace(file, mail(**{f"agent-{number}": word("early", spawn_id="s")}))
                await asyncio.sleep(0)
        assert len(watchers()) <= 1
        for number, file in enumerate(files):
            replace(file, mail(**{f"agent-{number}": word("late", spawn_id="s")}))
        await until(lambda: all("late" in heard.summaries for heard in ears))
        assert {kind for heard in ears for kind in heard.kinds} == {"signal"}
        assert all(heard.summaries in (["late"], ["early", "late"]) for heard in ears)
        assert watcher.degraded is None


async def test_a_thousand_agents_on_one_file_lose_no_breakpoint(tmp_path: Path) -> None:
    file = tmp_path / "communications.json"
    ears = [Heard() for _ in range(MANY)]
    entries: dict[str, Any] = {"_meta": {"shared": True}}
    async with MailboxWatcher() as watcher:
        for number, heard in enumerate(ears):
            watcher.subscribe(
                Mailbox(file), f"agent-{number}", spawn_id=None, task_id=None, on_reading=heard
            )
        for number in range(MANY):
            entries[f"agent-{number}"] = word(f"from {number}")
            if number % 50 == 49:
                replace(file, mail(**entries))
                await asyncio.sleep(0.01)
        await until(lambda: all(heard.readings for heard in ears))
    for number, heard in enumerate(ears):
        assert heard.summaries == [f"from {number}"]
        assert heard.kinds == ["signal"]
