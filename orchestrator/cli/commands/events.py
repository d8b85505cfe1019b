"""`loopwright events AGENT`: the journal, as text or as one JSON object per line."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from lifecycle.machine import events as on
from lifecycle.machine.states import TERMINAL
from lifecycle.state_words import word_of
from orchestrator.control.open_store import known, runner_of, store_of
from orchestrator.terminal.options import CommandLineParser, count, find_repo, positive
from orchestrator.terminal.text import instant, now, one_line, say, tell, to_json
from orchestrator.wording.facts import clause
from orchestrator.wording.json_forms import entry_form

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from lifecycle.record import JournalEntry
    from lifecycle.store.sqlite.store import SqliteStore

LOOK_EVERY = 0.25
PAGE = 1000
GONE = "No runner is alive here, so nothing follows."


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Print the journal of a lifecycle: each fact, the rule that took it, and what followed.",
        example=f"loopwright {name} agent-T001 --tail 20\nloopwright {name} agent-T001 -f --jsonl",
    ).with_agent()
    made.add_argument(
        "-f", "--follow", action="store_true", help="continue until the lifecycle ends"
    )
    made.add_argument("--tail", type=positive, metavar="N", help="only the last N")
    made.add_argument("--after", type=count, default=0, metavar="SEQ", help="only after this one")
    made.add_argument("--jsonl", action="store_true", help="print one JSON object per line")
    return made.with_json("print one JSON array; with --follow as --jsonl").with_repo()


def run(name: str, args: list[str]) -> int:
    """Print."""
    options = parser(name).parse_args(args)
    asyncio.run(_print(find_repo(options.repo), options))
    return 0


async def _print(repo: Path, options: Namespace) -> None:
    async with store_of(repo) as store:
        options.agent = (await known(store, options.agent, repo)).agent_id
        entries = await _read(store, options)
        lines = options.jsonl or (options.json and options.follow)
        if options.json and not lines:
            say(to_json([entry_form(entry) for entry in entries]))
            return
        passed = _Passed()
        _say(entries, passed, jsonl=lines)
        last = entries[-1].seq if entries else options.after
        if options.follow:
            await _follow(repo, store, options.agent, last, passed, jsonl=lines)


async def _read(store: SqliteStore, options: Namespace) -> list[JournalEntry]:
    if options.tail and options.tail <= PAGE:
        newest = await store.journal(options.agent, limit=options.tail, newest=True)
        return [entry for entry in newest if entry.seq > options.after]
    entries: list[JournalEntry] = []
    after = options.after
    while page := await store.journal(options.agent, after=after, limit=PAGE):
        entries += page
        after = page[-1].seq
    return entries[-options.tail :] if options.tail else entries


async def _follow(  # noqa: PLR0913  # the last by name
    repo: Path,
    store: SqliteStore,
    agent_id: str,
    last: int,
    passed: _Passed,
    *,
    jsonl: bool,
) -> None:
    while True:
        alone = runner_of(repo) is None
        record = await store.get(agent_id)
        entries = await store.journal(agent_id, after=last, limit=PAGE)
        if entries:
            _say(entries, passed, jsonl=jsonl)
            last = entries[-1].seq
        elif record is None or isinstance(record.work, TERMINAL):
            return
        elif alone:
            tell(GONE)
            return
        else:
            await asyncio.sleep(LOOK_EVERY)


def _say(
    entries: list[JournalEntry] | tuple[JournalEntry, ...], passed: _Passed, *, jsonl: bool
) -> None:
    present = now()
    for entry in entries:
        moved = passed.through(entry)
        line = _line(entry, moved, present) if not jsonl else ""
        say(line or to_json(entry_form(entry), compact=True))
    sys.stdout.flush()


def _line(entry: JournalEntry, moved: str, present: float) -> str:
    note = "late, nothing changed" if entry.late else entry.rule
    when = instant(entry.at, present, seconds=True)
    return f"{entry.seq:>4}  {when}  {moved:<22}  {one_line(clause(entry.event))}  ({note})"


class _Passed:
    """Names the states that a journal passed through, of which it keeps no more than their kind."""

    def __init__(self) -> None:
        self._asked: dict[str, Any] = {}

    def through(self, entry: JournalEntry) -> str:
        """Return the states before and after an entry; one where they have the same word."""
        before = word_of(entry.before, self._asked)
        if not entry.late:
            self._note(entry.event)
        after = word_of(entry.after, self._asked)
        return after if before == after else f"{before} -> {after}"

    def _note(self, event: on.Event) -> None:
        match event:
            case on.PauseRequested(now=frozen):
                self._asked |= {"stopped": False, "frozen": frozen}
            case on.StopRequested(pause=True):
                self._asked |= {"stopped": True, "frozen": False}
            case on.RejectRequested():
                self._asked["reason"] = "person"
            case on.ResumeRequested() | on.FreezeFailed() | on.AgentSpawned():
                self._asked["frozen"] = False
            case _:
                pass
