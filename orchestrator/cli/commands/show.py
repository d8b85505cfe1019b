"""`loopwright show AGENT`: all about one lifecycle, and in one sentence why it is where it is."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.machine.budget import dollars
from lifecycle.machine.states import Accepted, AwaitingHuman, Completed, PrPending, Suspended
from lifecycle.paths import Paths
from lifecycle.record import worker_of
from lifecycle.state_words import word_on
from orchestrator.config.settings import load_settings
from orchestrator.control.merge_preview import form, standing
from orchestrator.control.open_store import known, runner_of, store_of
from orchestrator.review.opinion import opinion_form, opinion_lines
from orchestrator.terminal.options import CommandLineParser, find_repo
from orchestrator.terminal.text import (
    columns,
    instant,
    now,
    one_line,
    safe,
    say,
    span,
    table,
    terminal_width,
    to_json,
)
from orchestrator.wording.facts import open_remarks, red_before
from orchestrator.wording.json_forms import files_of, whole_form
from orchestrator.wording.states import since
from orchestrator.wording.why import why
from orchestrator.wording.why_facts import WhyContext
from orchestrator.wording.workers import UNPLACED, unplaced_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry, PendingEffect
    from lifecycle.settings import Settings
    from orchestrator.wording.why_facts import MergeStanding

RECENT = 500
"""Journal entries that are searched for the reason."""
SHOWN_ATTEMPTS = 20
_HEADS = ("ATTEMPT", "STARTED", "TOOK")
_HEADS_TOLD, _HEADS_WORKER = ("PROGRAM", "USED"), ("WORKER",)
_HEADS_END = ("OUTCOME", "WORDS")


@dataclass(frozen=True, slots=True)
class _Found:
    repo: Path
    record: AgentLifecycle
    journal: tuple[JournalEntry, ...]
    attempts: tuple[AttemptRow, ...]
    pending: tuple[PendingEffect, ...]
    runner: dict[str, Any] | None
    reason: str
    present: float
    settings: Settings
    standing: MergeStanding
    earlier: tuple[str, ...]
    """Ids of the earlier lifecycles of this agent, the newest first."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Show one lifecycle: its state, why it is there, its attempts and where its files are.",
        example=f"loopwright {name} agent-T001\nloopwright {name} agent-T001 --why",
    ).with_agent()
    made.add_argument("--why", action="store_true", help="only say what led to its state")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """Show."""
    options = parser(name).parse_args(args)
    found = asyncio.run(_find(find_repo(options.repo), options.agent))
    if options.json:
        say(to_json(_form(found)))
    elif options.why:
        say(safe(found.reason))
    else:
        say("\n".join(_lines(found)))
    return 0


async def _find(repo: Path, agent_id: str) -> _Found:
    present = now()
    settings = load_settings(repo, environ=os.environ)
    async with store_of(repo) as store:
        record = await known(store, agent_id, repo)
        agent_id = record.agent_id
        journal = await store.journal(agent_id, limit=RECENT, newest=True)
        runner = runner_of(repo)
        view = WhyContext(
            journal=journal,
            now=present,
            when=lambda at: instant(at, present),
            settings=settings,
            has_runner=runner is not None,
            outside=(await store.all("ci.waits")).get(agent_id, {}),
            standing=(stands := await standing(repo, store, record)),
            silent=await store.workers.silent(present),
            unplaced=unplaced_in(await store.all(UNPLACED), agent_id),
        )
        return _Found(
            repo=repo,
            record=record,
            journal=journal,
            attempts=await store.attempts(agent_id),
            pending=await store.pending(agent_id),
            runner=runner,
            reason=why(record, view),
            present=present,
            settings=settings,
            standing=stands,
            earlier=await store.earlier(agent_id),
        )


def _form(found: _Found) -> dict[str, Any]:
    whole = whole_form(
        found.record,
        why=found.reason,
        attempts=found.attempts,
        pending=found.pending,
        runner=found.runner,
        paths=Paths.of(found.repo),
        earlier=found.earlier,
        settings=found.settings,
    )
    return {
        **whole,
        "opinion": opinion_form(found.record),
        "comes_along": form(found.standing.along),
        "merged_as": found.standing.merged_as or None,
        "resolution": {
            "commits": list(found.standing.resolution),
            "files": list(found.standing.resolved_files),
        },
    }


def _lines(found: _Found) -> Iterator[str]:
    record, present = found.record, found.present
    width = terminal_width(sys.stdout, os.environ)
    if red := _red_before(record):
        yield one_line(f"{red[:1].upper()}{red[1:]}", width)
    yield one_line(f"{record.agent_id}: {record.task}", width)
    facts = [(label, text) for label, text in _facts(found) if text]
    margin = max(len(label) for label, _ in facts) + 2
    for label, text in facts:
        yield f"{label:<{margin}}{_wrapped(safe(text), margin, width)}"
    if found.attempts:
        yield ""
        shown = found.attempts[-SHOWN_ATTEMPTS:]
        told, workers = any(row.program for row in shown), bool(worker_of(record))
        heads = (*_HEADS, *(_HEADS_WORKER * workers), *(_HEADS_TOLD * told), *_HEADS_END)
        rows = [
            _attempt_row(
                row, present, told=told, worker=(worker_of(record, row.attempt),) * workers
            )
            for row in shown
        ]
        yield table(heads, rows, width=width)
        left = len(found.attempts) - len(rows)
        if left:
            yield f"({left} earlier attempts are in `loopwright show {record.agent_id} --json`)"


def _red_before(record: AgentLifecycle) -> str:
    """Say what failed before any work, until it is known to be fixed."""
    if isinstance(record.work, (Completed, Accepted)):
        return ""
    baseline = record.facts.get("baseline", {})
    return red_before(tuple(f"`{command}`" for command, ok in baseline.items() if not ok))


def _facts(found: _Found) -> Iterator[tuple[str, str]]:
    record, present = found.record, found.present
    facts, work = record.facts, record.work
    began = since({"since": getattr(work, "since", None)}, record.updated_at)
    state = word_on(record, runs=found.runner is not None)
    yield "task", record.task_id
    yield "state", f"{state} for {span(present - began)}"
    yield "why", found.reason
    yield "worker", worker_of(record)
    if work is not None:
        tally = work.tally
        interrupted = f", interrupted: {tally.interruptions}" if tally.interruptions else ""
        yield "attempts", f"{tally.attempts}, retries used: {tally.retry_count}{interrupted}"
    if work is not None:
        plan = facts.get("task", {}).get("dependencies", ())
        said = [f"{task} (said by the agent)" for task in work.tally.depends_on if task not in plan]
        yield "depends on", ", ".join([*plan, *said])
    if facts.get("branch"):
        base = facts.get("base_branch") or str(facts.get("base_commit", ""))[:12]
        yield "branch", f"{facts['branch']} from {base}"
    yield "pull request", _pull_request(work)
    yield "remarks", "; ".join(open_remarks(found.journal))
    if (opinion := opinion_form(record)) is not None:
        first, *findings = opinion_lines(opinion)
        yield "review", first
        yield from (("finding", line) for line in findings)
    yield "workspace", str(facts.get("workspace", ""))
    yield "tags", ", ".join(record.tags)
    yield "summary", " ".join((record.submission_summary or "").split())
    if record.changed_files:
        few = ", ".join(record.changed_files[:8])
        more = len(record.changed_files) - 8
        yield "changed", few + (f" and {more} more" if more > 0 else "")
    stands = found.standing
    if isinstance(work, Completed) and work.resolves:
        between = f"{work.resolves[:12]}..{work.head[:12]} ^{facts.get('base_branch')}"
        yield "resolves", f"{work.resolves[:12]}, which was accepted and could not be merged"
        yield "by", "; ".join(stands.resolution)
        yield "in", f"{', '.join(stands.resolved_files) or 'no file'} (git log -p --cc {between})"
    yield "along", ", ".join(map(str, found.standing.along))
    yield from files_of(Paths.of(found.repo), record.agent_id).items()
    yield "earlier", ", ".join(found.earlier)
    yield "orders", ", ".join(type(order.effect).__name__ for order in found.pending)


def _pull_request(work: State | None) -> str:
    """Return the address as the agent signalled it, and the provider's own where it differs."""
    inner = work.inner if isinstance(work, Suspended) else work
    match inner:
        case PrPending(url=url, word=word):
            signalled = word.pr_url
        case AwaitingHuman(url=url, signalled_url=signalled):
            pass
        case _:
            return ""
    own = "" if url == signalled else url
    return f"{signalled} (kept as {own})" if signalled and own else signalled or own


def _attempt_row(
    row: AttemptRow, present: float, *, told: bool, worker: tuple[str, ...]
) -> tuple[str, ...]:
    words = one_line(row.summary, 400) or row.error
    return (
        str(row.attempt),
        instant(row.started_at, present) if row.started_at else "",
        span((row.ended_at or present) - row.started_at) if row.started_at else "",
        *worker,
        *((row.program, _used(row)) if told else ()),
        row.outcome or "under way",
        words + (f" ({row.error})" if row.summary and row.error else ""),
    )


def _used(row: AttemptRow) -> str:
    used = row.used
    tokens = f"{used.tokens:,} tokens" if used.tokens else ""
    cost = dollars(used.cost_usd) if used.cost_usd is not None else ""
    return ", ".join(part for part in (tokens, cost) if part)


def _wrapped(text: str, margin: int, width: int) -> str:
    """Break at blanks; only on a terminal, so that programs find one fact per line."""
    if not width or columns(text) <= width - margin:
        return text
    lines = textwrap.wrap(text, max(width - margin, 20), break_on_hyphens=False)
    return ("\n" + " " * margin).join(lines)
