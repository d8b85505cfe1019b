"""One lifecycle, or a whole night, as a page that stands for itself: no script, nothing fetched.

What is told of a lifecycle is what the API tells, cut to a size that a mail can carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.state_words import RECORD_STATES, spelled, word_on
from orchestrator.control.spent import costs_form
from orchestrator.review.own_work import ReviewError
from orchestrator.review.work_diff import STAT, DiffWish
from orchestrator.terminal.text import instant, span
from orchestrator.version import __version__
from orchestrator.web.formats import dollars, many, short, shown, tokens
from orchestrator.web.reading.story import story_of
from orchestrator.wording.markdown import rendered
from runtime.errors import RuntimeFault
from templates.renderer import Html, HtmlPages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.review.work_diff import WorkReader
    from orchestrator.web.reading.story import AttemptStoryForm

FOLDER = Path(__file__).parent / "html"
MOST = 200
"""Lifecycles that are told in full; of more only the line in the table at the top."""
LONGEST = 8000
"""Characters of what an agent said, or a task asks for."""
EXCERPT = 2000
"""Characters of what a red gate printed, its end."""
MOST_FILES = 100
MOST_EVENTS = 60
SIZE = 4_000_000
"""Characters of a page; what comes later is named and left out."""


@dataclass(frozen=True, slots=True)
class ExportSource:
    """What a page is made of."""

    repo: Path
    database: Path
    store: SqliteStore
    reader: WorkReader
    mask: Callable[[str], str]
    """Takes secrets out of a text; what is stored has none already."""
    now: float
    runs: bool


def title_of_page(records: Sequence[AgentLifecycle], since: float | None, repo: str) -> str:
    """Return the title of a page."""
    if since is not None:
        return f"What was done in {repo}"
    if len(records) == 1:
        return f"{short(records[0].agent_id)} {_title(records[0])}"
    return f"{len(records)} tasks of {repo}"


async def static_page(
    source: ExportSource,
    records: Sequence[AgentLifecycle],
    *,
    title: str,
    since: float | None = None,
) -> str:
    """Return the page of some lifecycles; with `since` also what was spent since then."""
    told, parts, size = list[dict[str, Any]](), list[Html](), 0
    for number, record in enumerate(records):
        row = _row(source, record)
        told.append(row)
        if number >= MOST or size > SIZE:
            continue
        made = environment().render("lifecycle.html", await _whole(source, record, row))
        size += len(made)
        row["told"] = True
        parts.append(Html(made))
    words = [each["word"] for each in told]
    page = environment().render(
        "export.html",
        {
            "title": title,
            "repo": source.repo.name,
            "rows": told,
            "parts": parts,
            "by_state": {word: words.count(word) for word in RECORD_STATES if word in words},
            "since": since,
            "spent": None
            if since is None
            else costs_form(source.database, since, source.now, "program", 0),
            "at": source.now,
            "version": __version__,
        },
    )
    return source.mask(page)


@cache
def environment() -> HtmlPages:
    """Return the templates."""
    functions: dict[str, Callable[..., object]] = {
        "short": short,
        "span": span,
        "moment": _moment,
        "tokens": tokens,
        "dollars": dollars,
        "many": many,
    }
    return HtmlPages(FOLDER, functions, shown)


def _moment(at: float) -> str:
    """Return date and time in full: a page is read later, and elsewhere."""
    return instant(at, 0.0)


def _row(source: ExportSource, record: AgentLifecycle) -> dict[str, Any]:
    word = word_on(record, runs=source.runs)
    return {
        "id": short(record.agent_id),
        "title": _title(record),
        "word": word,
        "state": spelled(word),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "told": False,
        "error": record.error or "",
    }


def _title(record: AgentLifecycle) -> str:
    task = record.facts.get("task") or {}
    return str(task.get("title") or record.task.strip().partition("\n")[0] or record.task_id)


async def _whole(
    source: ExportSource, record: AgentLifecycle, row: dict[str, Any]
) -> dict[str, Any]:
    told = await story_of(source.store, record)
    work, task = record.work, record.facts.get("task") or {}
    words = record.submission_summary or getattr(work, "summary", "") or ""
    files, problem = await _files(source, record)
    attempts = told["attempts"]
    return {
        "row": row,
        "task": _cut(record.task, LONGEST),
        "acceptance": [str(each) for each in task.get("acceptance") or ()],
        "words": Html(rendered(_cut(words, LONGEST), top=4)) if words else "",
        "attempts": list(reversed(attempts)),
        "sums": _sums(attempts),
        "baseline": told["baseline"],
        "gates": next((each["gates"] for each in attempts if each["gates"]), []),
        "cut_end": _end,
        "pull": told["pull"],
        "events": [each for each in reversed(told["events"][:MOST_EVENTS]) if each["text"]],
        "more_events": max(0, len(told["events"]) - MOST_EVENTS) or told["more_events"],
        "files": files[:MOST_FILES],
        "more_files": max(0, len(files) - MOST_FILES),
        "problem": problem,
        "branch": str(record.facts.get("branch", "")),
        "base": str(record.facts.get("base_branch", "")),
    }


async def _files(source: ExportSource, record: AgentLifecycle) -> tuple[list[dict[str, Any]], str]:
    """Return its changed files, flagged ones first; or why they are not known."""
    try:
        diff = await source.reader.diff(record, DiffWish(view=STAT))
    except (ReviewError, RuntimeFault) as error:
        return [], str(error)
    return [
        {
            "path": each.path,
            "added": each.change.added,
            "removed": each.change.removed,
            "flagged": each.flagged,
        }
        for each in diff.files
    ], ""


def _sums(attempts: Sequence[AttemptStoryForm]) -> dict[str, Any]:
    """Add up what is known; a cost that no program told is unknown."""
    ended = [each for each in attempts if each["ended_at"] is not None]
    costs = [each["cost_usd"] for each in ended if each["cost_usd"] is not None]
    used = [each["tokens"] for each in ended if each["tokens"] is not None]
    return {
        "cost_usd": sum(costs) if costs else None,
        "at_least": len(costs) < len(ended),
        "tokens": sum(used) if used else None,
        "tokens_at_least": len(used) < len(ended),
        "seconds": sum(each["seconds"] for each in ended),
    }


def _cut(text: str, most: int) -> str:
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n\n[{left} more characters are left out]"


def _end(text: str) -> str:
    """Return the end of what a gate printed."""
    return text if len(text) <= EXCERPT else f"[…]\n{text[-EXCERPT:]}"
