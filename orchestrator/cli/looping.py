"""What `run`, `up` and `demo` share: settings and view joined, the end told.

Decides nothing about lifecycles.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from lifecycle import confine
from lifecycle.asking import verbs
from lifecycle.clock import SystemClock
from lifecycle.machine.states import (
    About,
    Accepted,
    AwaitingHuman,
    Blocked,
    Completed,
    PrPending,
    Reason,
    Rejected,
    Suspended,
)
from lifecycle.paths import Paths
from lifecycle.result import LoopResultType
from lifecycle.state_words import ACCEPTED, GIVEN_UP, NEEDS_YOU, word_on
from orchestrator import service, wiring
from orchestrator.cli.options import UsageError
from orchestrator.cli.text import (
    STATE_COLOURS,
    blocks,
    coloured,
    one_line,
    paint,
    say,
    span,
    tell,
    terminal_width,
)
from orchestrator.config import SettingsReader
from orchestrator.guard import check_own_packages
from orchestrator.log import RunnerLog
from orchestrator.peopleonly import require_person
from orchestrator.providers import Makings, outside
from orchestrator.secrecy import masker_of
from orchestrator.troubles import Troubles
from orchestrator.view import choose
from orchestrator.waiting import ended_with, waiting_for
from runtime.errors import SpawnError
from runtime.git import inspect_repository
from runtime.pool import provide
from runtime.room import raise_files
from runtime.worktrees_dir import claimed, worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lifecycle.engine import Engine
    from lifecycle.record import AgentLifecycle
    from lifecycle.result import LoopResult
    from orchestrator.service import Ending, Work

NAMED = 4
"""Agents that a hint names; a plan may have hundreds."""
HEADS = ("AGENT", "TASK", "ENDED AS", "ATTEMPTS", "RETRIES", "WHAT IT SAYS")
STATE = HEADS.index("ENDED AS")
SUMMARY = 400
"""Columns of an agent's summary."""

ACCEPT = "accept {}"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a command works and by which settings."""

    repo: Path
    settings: SettingsReader
    environ: Mapping[str, str]

    @classmethod
    def of(cls, repo: Path, **overrides: object) -> Bench:
        """Read the settings of a repository; the command line comes first.

        Who is inside of an attempt of it starts no runner of it.
        """
        require_person(repo, "run loops")
        environ = dict(os.environ)
        reader = SettingsReader(
            repo,
            environ=environ,
            overrides=overrides,
            # Who is not there cannot answer, and a script wants to know that.
            defaults={"stay_for_people": _is_watched()},
            report=tell,
        )
        return cls(repo, reader, environ)


def _is_watched() -> bool:
    """Tell whether somebody may sit before a terminal."""
    return any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


async def loop_through(
    bench: Bench,
    work: Callable[[Engine], Awaitable[Work]],
    *,
    who: str,
    plain: bool,
    revives: bool,
) -> Ending:
    """Run what there is to run, shown on standard error."""
    check_own_packages()
    raise_files()
    provide()
    # Refused before anything is recorded: no git, no commit, a bare repository.
    inspect_repository(bench.repo).require_usable()
    settings = bench.settings()
    try:
        weaker = await asyncio.to_thread(confine.check, settings)
    except SpawnError as refusal:
        raise UsageError(str(refusal)) from refusal
    for what in weaker:
        tell(f"Weaker than asked for: {what}")
    view = choose(sys.stderr, bench.environ, plain=plain)
    masker = masker_of(bench.environ, settings.pass_env)
    there = outside(Makings(bench.repo, bench.settings, bench.environ, SystemClock().now, masker))
    root = Paths.of(bench.repo).root
    agents = worktrees_dir(bench.repo, settings.worktrees_dir, bench.environ)
    with (
        claimed(agents, bench.repo.resolve()),
        closing(RunnerLog(root, now=SystemClock().now, masker=masker)) as log,
    ):
        loop = wiring.build(
            bench.repo,
            settings=bench.settings,
            who=who,
            provider=there.provider,
            remote=there.remote,
            observers=(log.observer, view.news),
            report=Troubles(log.report, view.note).report,
            environ=bench.environ,
            masker=masker,
        )
        return await service.conduct(
            loop,
            work,
            view=view,
            outside=there,
            revives=revives,
            approvals=bench.settings.approvals,
        )


def tell_ending(ending: Ending, bench: Bench, *, hints: bool = True) -> None:
    """Print the final table and, with hints, what a person can do next."""
    lines = _table(ending, bench.environ)
    if lines:
        say("\n".join(lines))
    if not hints:
        return
    repo = _repo_option(bench)
    if ending.damaged:
        say(f"Next: loopwright doctor{repo}   (says how to mend a damaged record)")
    waiting: dict[tuple[str, str], list[str]] = {}
    for record in sorted((*ending.records.values(), *ending.held), key=lambda each: each.cursor):
        result = ending.results.get(record.agent_id)
        waiting.setdefault(_next(record, result), []).append(record.agent_id)
    for (command, more), (first, *others) in waiting.items():
        if command:
            several = bool(others) and "{}" in command
            whom = "--all" if several and command == ACCEPT else first
            notes = [f"also {_some(others)}"] if several and whom == first else []
            said = "; ".join((*notes, more) if more else notes)
            say(f"Next: loopwright {command.format(whom)}{repo}" + (f"   ({said})" if said else ""))


def headline(result: LoopResult, record: AgentLifecycle | None) -> str:
    """Say in a word how a loop ended: the state of its record, now that no runner is left."""
    if record is not None:
        return word_on(record, runs=False)
    # It was accepted long ago, and its record is gone.
    return ACCEPTED if result.result_type is LoopResultType.TASK_COMPLETE else GIVEN_UP


def _table(ending: Ending, environ: Mapping[str, str]) -> list[str]:
    rows = []
    for agent_id, result in sorted(ending.results.items()):
        record = ending.records.get(agent_id)
        counts = (str(result.spawn_count), str(result.retry_count))
        words = _says(result, record)
        rows.append((agent_id, result.task_id, headline(result, record), *counts, words))
    for record in ending.held:
        tally = record.work.tally if record.work is not None else None
        counts = (str(tally.spawn_count), str(tally.retry_count)) if tally else ("", "")
        rows.append((record.agent_id, record.task_id, word_on(record), *counts, ""))
    rows += [
        (each.agent_id, each.task_id, NEEDS_YOU, "", "", f"damaged: {each.problem}")
        for each in ending.damaged
    ]
    if not rows:
        return []
    head, *lines = blocks(HEADS, rows, width=terminal_width(sys.stdout, environ))
    if coloured(sys.stdout, environ):
        head = paint(head, "dim", wanted=True)
        lines = [
            paint(line, STATE_COLOURS.get(row[STATE], ""), wanted=True)
            for line, row in zip(lines, rows, strict=True)
        ]
    return [head, *lines]


def _says(result: LoopResult, record: AgentLifecycle | None) -> str:
    """Return the agent's words for what is done, else what keeps it from that."""
    work = record.work if record is not None else None
    if work is None or (isinstance(work, Completed) and not work.problem):
        return one_line(result.summary or result.error or "", SUMMARY)
    if isinstance(work, Accepted | Rejected):
        return ended_with(type(work).__name__, vars(work))
    present = SystemClock().now()
    waits = waiting_for(type(work).__name__, asdict(work), present, span, runs=False)
    return result.error or waits or one_line(result.summary, SUMMARY)


def _next(  # noqa: PLR0911  # one line per state reads best
    record: AgentLifecycle, result: LoopResult | None
) -> tuple[str, str]:
    """Return what to type next about a lifecycle, and what else there is."""
    match record.work:
        case Blocked() if result is not None and result.result_type is LoopResultType.BLOCKED:
            return "show {} --why", "or: answer, unblock; then: loopwright up"
        case Completed():
            return ACCEPT, "or: reject, guide"
        case Suspended():
            return "resume {}", "then: loopwright up"
        case AwaitingHuman(about=About.PR_TIMEOUT):
            return "pr list", "then: loopwright pr merge N, and loopwright up"
        case AwaitingHuman(about=About.REVIEW):
            return "summary {}", "then: loopwright summary approve, and loopwright up"
        case AwaitingHuman(about=about):
            return "show {} --why", f"or: {', '.join(verbs(about))}"
        case PrPending():
            return "pr list", "or: loopwright up, to wait again"
        case None | Accepted() | Rejected(reason=Reason.PERSON):
            return "", ""
        case Rejected():
            return "show {} --why", "then: loopwright resume"
        case _:
            return "up", "goes on where it stopped"


def _some(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _repo_option(bench: Bench) -> str:
    here = Path.cwd()
    around = here == bench.repo or bench.repo in here.parents
    return "" if around else f" --repo {quote(one_line(str(bench.repo)))}"
