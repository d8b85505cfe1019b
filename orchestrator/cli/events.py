"""`loopwright events AGENT`: the journal, as text or as one JSON object per line."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from lifecycle.machine.states import TERMINAL
from orchestrator.cli.options import Parser, count, find_repo, positive
from orchestrator.cli.text import instant, now, one_line, say, state_name, tell, to_json
from orchestrator.evidence import told
from orchestrator.forms import entry_form
from orchestrator.reading import known, runner_of, store_of

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from lifecycle.record import JournalEntry
    from lifecycle.store.port import LifecycleStore

LOOK_EVERY = 0.25
PAGE = 1000
GONE = "No runner is alive here, so nothing follows."


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Print the journal of a lifecycle: each fact, the rule that took it, and what followed.",
        example=f"loopwright {name} agent-T001 --tail 20\nloopwright {name} agent-T001 -f --jsonl",
    ).with_agent()
    made.add_argument("-f", "--follow", action="store_true", help="go on until the lifecycle ends")
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
        _say(entries, jsonl=lines)
        last = entries[-1].seq if entries else options.after
        if options.follow:
            await _follow(repo, store, options.agent, last, jsonl=lines)


async def _read(store: LifecycleStore, options: Namespace) -> list[JournalEntry]:
    if options.tail and options.tail <= PAGE:
        newest = await store.journal(options.agent, limit=options.tail, newest=True)
        return [entry for entry in newest if entry.seq > options.after]
    entries: list[JournalEntry] = []
    after = options.after
    while page := await store.journal(options.agent, after=after, limit=PAGE):
        entries += page
        after = page[-1].seq
    return entries[-options.tail :] if options.tail else entries


async def _follow(
    repo: Path, store: LifecycleStore, agent_id: str, last: int, *, jsonl: bool
) -> None:
    while True:
        alone = runner_of(repo) is None
        record = await store.get(agent_id)
        entries = await store.journal(agent_id, after=last, limit=PAGE)
        if entries:
            _say(entries, jsonl=jsonl)
            last = entries[-1].seq
        elif record is None or isinstance(record.work, TERMINAL):
            return
        elif alone:
            tell(GONE)
            return
        else:
            await asyncio.sleep(LOOK_EVERY)


def _say(entries: list[JournalEntry] | tuple[JournalEntry, ...], *, jsonl: bool) -> None:
    present = now()
    for entry in entries:
        say(to_json(entry_form(entry), compact=True) if jsonl else _line(entry, present))
    sys.stdout.flush()


def _line(entry: JournalEntry, present: float) -> str:
    moved = (
        f"{state_name(entry.before)} -> {state_name(entry.after)}"
        if entry.before != entry.after
        else state_name(entry.after)
    )
    note = "late, nothing changed" if entry.late else entry.rule
    when = instant(entry.at, present, seconds=True)
    return f"{entry.seq:>4}  {when}  {moved:<28}  {one_line(told(entry.event))}  ({note})"
