"""The page of a summary: what an attempt was told or will be told, edited and approved.

Must not read anything but what the API gives as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from lifecycle.context.snapshot import MAX_SUMMARY_BYTES
from orchestrator.control.commands import OperatorCommand
from orchestrator.control.summaries import HELD, SummaryError
from orchestrator.web.edge.problems import Problem
from orchestrator.web.formats import short
from orchestrator.web.operator import found, steer
from orchestrator.web.pages.events import live_of, watched
from orchestrator.web.pages.site import actor, agent_of, form, page, see, task_url
from orchestrator.web.pages.summary_text import diff_lines, parts
from orchestrator.web.reading import summaries as reading
from orchestrator.web.routes.summaries import replaced, seen, telling

if TYPE_CHECKING:
    from orchestrator.control.summaries import ShownSummary, Summaries
    from orchestrator.web.services import ServerServices

VIEWS = (("text", "Rendered"), ("source", "Markdown"), ("prompt", "Whole prompt"))
COLOURS = ("ink", "bad", "mute", "run", "you", "idle")
CHANGED, LONG = 409, 422
_FACTS = (
    ("captured_at", "captured"),
    ("head_commit", "head commit"),
    ("branch", "branch"),
    ("retry_count", "retries"),
    ("spawn_count", "processes"),
)
_LISTS = (
    ("dirty_files", "uncommitted files"),
    ("changed_files", "changed files"),
    ("recent_commits", "commits"),
    ("flagged_files", "flagged files"),
    ("ledger", "attempts before"),
    ("guidance", "guidance"),
    ("remarks", "remarks"),
)

Number = Annotated[int, Path(ge=0, le=1_000_000_000)]
View = Annotated[str, Query(max_length=10)]


def router(services: ServerServices) -> APIRouter:
    """Return the page and its deeds."""
    made = APIRouter(include_in_schema=False)
    runner = services.runner
    watched("summary", _watched)

    @made.get("/t/{task}/summaries")
    async def newest(task: str) -> Response:
        agent_id = await agent_of(services, task)
        told = await reading.overview(runner, agent_id)
        last = told["next_attempt"] if told["waits"] else max(told["items"], default=1)
        return see(task_url(agent_id, "summaries", last or 1))

    @made.get("/t/{task}/summaries/{attempt}")
    async def summary(
        request: Request, task: str, attempt: Number, view: View = "text"
    ) -> Response:
        agent_id = await agent_of(services, task)
        if short(agent_id) != task:
            return see(task_url(agent_id, "summaries", attempt))
        return await _page(request, services, agent_id, attempt, view)

    _deeds(made, services)
    return made


def _deeds(made: APIRouter, services: ServerServices) -> None:
    runner = services.runner

    @made.post("/t/{task}/summaries/{attempt}")
    async def edit(request: Request, task: str, attempt: Number) -> Response:
        agent_id, sent = await agent_of(services, task), form(request)
        text = f"{sent.text('text')}\n" if sent.text("text") else ""
        version = sent.text("version") or None
        try:
            await replaced(runner, agent_id, attempt, text, by=actor(request), version=version)
        except Problem as problem:
            if problem.status not in {CHANGED, LONG}:
                raise
            return await _page(request, services, agent_id, attempt, "edit", problem, text)
        return see(f"{task_url(agent_id, 'summaries', attempt)}?kept=1")

    @made.post("/t/{task}/summaries/{attempt}/approve")
    async def approve(request: Request, task: str, attempt: Number) -> Response:
        agent_id, sent = await agent_of(services, task), form(request)
        try:
            await seen(runner, agent_id, attempt, sent.text("version") or None)
            verb = reading.approval_of(await found(runner, agent_id))
            await steer(runner, OperatorCommand(verb=verb, agent_id=agent_id, by=actor(request)))
        except Problem as problem:
            if problem.status != CHANGED:
                raise
            return await _page(request, services, agent_id, attempt, "text", problem)
        return see(task_url(agent_id))

    @made.post("/t/{task}/summaries/{attempt}/hold")
    async def hold(request: Request, task: str, attempt: Number) -> Response:
        agent_id = await agent_of(services, task)
        await seen(runner, agent_id, attempt, None)
        command = OperatorCommand(verb="pause", agent_id=agent_id, by=actor(request), why=HELD)
        await steer(runner, command)
        return see(task_url(agent_id, "summaries", attempt))


async def _page(  # noqa: PLR0913, PLR0917  # what was sent, and what was wrong with it
    request: Request,
    services: ServerServices,
    agent_id: str,
    attempt: int,
    view: str,
    problem: Problem | None = None,
    typed: str = "",
) -> Response:
    runner = services.runner
    record = await found(runner, agent_id)
    known = reading.of_record(runner, record)
    at = runner.now()
    following = known.next_attempt
    with telling():
        is_next = attempt == following
        shown = await known.to_come(at=at) if is_next else await known.show(attempt, at=at)
        prompt = await known.prompt(attempt, at=at) if view == "prompt" else ""
    against, diff = known.compare(shown) if shown.text else (None, "")
    lines, left = diff_lines(diff)
    base = task_url(agent_id, "summaries", attempt)
    told: dict[str, Any] = {
        "agent_id": agent_id,
        "name": str(record.facts.get("task", {}).get("title") or record.task),
        "attempt": attempt,
        "shown": shown.form(agent_id),
        "base": base,
        "is_next": is_next,
        "begins": is_next and known.waits,
        "held": is_next and reading.is_held(record),
        "view": view if view in {"source", "prompt", "edit"} else "text",
        "views": [(key, name, f"{base}?view={key}") for key, name in VIEWS],
        "parts": parts(shown.text),
        "prompt": prompt,
        "bars": _bars(shown),
        "most": MAX_SUMMARY_BYTES,
        "against": against,
        "diff": lines,
        "diff_left": left,
        "added": sum(each.kind == "a" for each in lines),
        "removed": sum(each.kind == "d" for each in lines),
        "facts": await _facts(known, attempt, at),
        "edits": [each for each in await known.edits() if each["attempt"] == attempt],
        "others": _others(known, attempt, agent_id),
        "problem": problem,
        "typed": typed or shown.text,
        "kept": request.query_params.get("kept") == "1",
    }
    which = "will be" if is_next else "was"
    title = f"What attempt {attempt} {which} told · {short(agent_id)}"
    status = problem.status if problem else 200
    live = live_of("summary", await reading.overview(runner, agent_id), agent_id)
    return page(
        request, "summary.html", title=title, here="board", status=status, live=live, **told
    )


async def _watched(services: ServerServices, agent_id: str) -> Any:
    return await reading.overview(services.runner, agent_id)


def _others(known: Summaries, attempt: int, agent_id: str) -> list[tuple[int, str, bool]]:
    """Return the summaries there are, the newest first: number, address, whether it is this one."""
    numbers = set(known.written())
    if known.next_attempt is not None and known.waits:
        numbers.add(known.next_attempt)
    numbers.add(attempt)
    return [
        (each, task_url(agent_id, "summaries", each), each == attempt)
        for each in sorted(numbers, reverse=True)
    ]


def _bars(shown: ShownSummary) -> list[tuple[str, int, float, float, str]]:
    """Return the sections as they stand in the bar: name, bytes, place, width, colour."""
    made, place = [], 0.0
    for number, each in enumerate(shown.form("")["sections"]):
        width = 100 * each["bytes"] / MAX_SUMMARY_BYTES
        colour = COLOURS[number % len(COLOURS)]
        made.append((each["name"], each["bytes"], place, width, colour))
        place += width
    return made


async def _facts(known: Summaries, attempt: int, at: float) -> list[tuple[str, str]]:
    """Return the facts behind a summary, in short; none where they are not kept."""
    try:
        told = await known.snapshot(attempt, at=at)
    except SummaryError:
        return []
    made = [(label, str(told[name])) for name, label in _FACTS if told.get(name) not in {None, ""}]
    outcome = told.get("last_outcome") or {}
    if outcome.get("kind"):
        made.append(("last outcome", f"{outcome['kind']} {outcome.get('text', '')}".strip()))
    gates = told.get("gates") or ()
    if gates:
        green = sum(bool(each.get("ok")) for each in gates)
        made.append(("gates", f"{green} of {len(gates)} green"))
    made += [(label, str(len(told[name]))) for name, label in _LISTS if told.get(name)]
    omitted = ", ".join(f"{many} {what}" for what, many in (told.get("omitted") or {}).items())
    return [*made, ("left out", omitted or "nothing")]
