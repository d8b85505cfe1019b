"""The page of one task, and the log of one of its attempts.

Must not read anything but what the API gives as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from lifecycle.machine.states import (
    Accepted,
    AwaitingHuman,
    Completed,
)
from lifecycle.record import worker_of
from lifecycle.state_words import is_under_way
from orchestrator.web.edge.problems import Problem
from orchestrator.web.formats import place, plain_why, short
from orchestrator.web.operator import found
from orchestrator.web.pages.board import GUARD, live_address
from orchestrator.web.pages.events import VIEWS
from orchestrator.web.pages.looks import Look, look_of, look_of_end
from orchestrator.web.pages.site import agent_of, page, piece, see, task_url
from orchestrator.web.reading.attempt_logs import is_live, log_window
from orchestrator.web.reading.board import present_row
from orchestrator.web.reading.log_window import Asked
from orchestrator.web.reading.story import story
from orchestrator.web.reading.whole import whole_of
from orchestrator.wording.doing import AgentActivity
from orchestrator.wording.markdown import rendered
from templates.renderer import Html

if TYPE_CHECKING:
    from collections.abc import Collection

    from lifecycle.record import AgentLifecycle
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.live.page_news import Maker
    from orchestrator.web.reading.log_window import LogWindowForm
    from orchestrator.web.reading.story import AttemptStoryForm
    from orchestrator.web.services import ServerServices

_LARGEST = 2**53 - 1
FEW_LINES = 60
"""Lines of the newest log on the page of a task."""
FEW_EVENTS = 40
FEW_ATTEMPTS = 50
"""Attempts that are shown before one asks for all."""


KIND_CLASS = {
    "tool": "tool",
    "words": "say",
    "output": "out",
    "error": "err",
    "note": "note",
    "gap": "gap",
}


def router(services: ServerServices) -> APIRouter:
    """Return the pages."""
    made = APIRouter(include_in_schema=False)
    activity = AgentActivity(services.runner.engine)

    def live(services: ServerServices, request: Request, operate: bool) -> tuple[str, Maker]:  # noqa: FBT001  # as all views
        agent_id = request.query_params.get("task", "")[:200]
        news = TaskNews(services, services.board.activity, agent_id, operate=operate)
        return f"task:{int(operate)}:{agent_id}", news.pieces

    VIEWS["task"] = live

    @made.get("/t/{task}")
    async def task_page(
        request: Request,
        task: str,
        every: Annotated[bool, Query(alias="all")] = False,  # noqa: FBT002  # a wish in an address
    ) -> Response:
        agent_id = await agent_of(services, task)
        if short(agent_id) != task:
            return see(task_url(agent_id))
        record = await found(services.runner, agent_id)
        await services.board.look()
        doing = activity.doing(agent_id).text
        told = await _told(services, record, doing)
        newest = told["newest"]
        return page(
            request,
            "task.html",
            title=f"{short(agent_id)} {told['look'].word}",
            here="board",
            live=live_address("task", record.version, task=agent_id),
            **(told | ({"attempts": told["story"]["attempts"]} if every else {})),
            words=_words(record),
            question=_question(record),
            sums=_sums(told["story"]["attempts"]),
            facts=_facts(record, services.runner),
            depends=await _depends(services, record),
            log=await _newest_log(services, record, newest),
            log_url=_log_api(agent_id, newest),
            kinds=KIND_CLASS,
        )

    @made.get("/t/{task}/attempts/{attempt}")
    async def log_page(  # noqa: PLR0913, PLR0917  # one for each wish in the address
        request: Request,
        task: str,
        attempt: Annotated[int, Path(ge=0, le=1_000_000_000)],
        before: Annotated[int | None, Query(ge=0, le=_LARGEST)] = None,
        after: Annotated[int | None, Query(ge=0, le=_LARGEST)] = None,
        at: Annotated[int | None, Query(ge=0, le=_LARGEST)] = None,
        errors: Annotated[bool, Query()] = False,  # noqa: FBT002  # a wish in an address
        q: Annotated[str, Query(max_length=200)] = "",
    ) -> Response:
        agent_id = await agent_of(services, task)
        record = await found(services.runner, agent_id)
        asked = Asked(before=before, after=after, at=at, limit=500, errors=errors, q=q)
        shown = await log_window(services.runner, record, attempt, asked)
        rows = await services.runner.store.attempts(agent_id)
        numbers = [each.attempt for each in rows]
        live = is_live(record, attempt)
        base = task_url(agent_id, "attempts", attempt)

        def to(**wish: object) -> str:
            kept = {"errors": 1} if errors else {}
            told = {key: value for key, value in {**kept, **wish}.items() if value is not None}
            return f"{base}?{urlencode(told)}" if told else base

        return page(
            request,
            "log.html",
            title=f"Log of attempt {attempt} of {short(agent_id)}",
            here="board",
            agent_id=agent_id,
            name=_title(record),
            attempt=attempt,
            numbers=numbers,
            shown=shown,
            errors=errors,
            q=q,
            to=to,
            at_end=not shown["more"],
            follows=live and not shown["more"] and not q,
            live=live,
            log_url=_log_api(agent_id, attempt),
            raw_url=f"/api/v1/lifecycles/{agent_id}/attempts/{attempt}/log",
            kinds=KIND_CLASS,
            searched_all=bool(q) and shown["found"] is None and shown["goes_on"] is None,
            upward=after is None,
        )

    return made


@dataclass(slots=True)
class TaskNews:
    """What changes on the page of a task."""

    services: ServerServices
    activity: AgentActivity
    agent_id: str
    operate: bool = field(kw_only=True)
    _said: str = ""

    async def pieces(self, changed: Collection[str], look: bool) -> list[tuple[str, str]]:  # noqa: FBT001  # as all makers
        """Return the parts of the page that changed; with `look` what its agent does."""
        doing = self.activity.doing(self.agent_id).text if look or changed else self._said
        name = short(self.agent_id)
        if self.agent_id not in changed:
            if not doing or doing == self._said:
                return []
            self._said = doing
            return [(f"words:{name}", piece("parts/words.html", words=doing))]
        self._said = doing
        await self.services.board.look()
        record = await self.services.runner.store.get(self.agent_id)
        if record is None:
            return []
        told = await _told(self.services, record, doing)
        told |= {
            "now": self.services.runner.now(),
            "csrf": GUARD,
            "may_operate": self.operate,
        }
        return [
            (f"{part}:{name}", piece(f"parts/task_{part}.html", **told))
            for part in ("hero", "attempts", "events")
        ]


async def _told(services: ServerServices, record: AgentLifecycle, doing: str) -> dict[str, Any]:
    """Return what the parts of the page are made of that change while one looks."""
    whole = await whole_of(services.runner, record)
    told = await story(services.runner, record)
    row = present_row(services.board, record)
    return {
        "record": whole["lifecycle"],
        "name": _title(record),
        "why": plain_why(whole["why"]),
        "earlier": whole["earlier"],
        "look": look_of(row),
        "doing": doing,
        "story": told,
        "attempts": told["attempts"][:FEW_ATTEMPTS],
        "newest": told["attempts"][0]["attempt"] if told["attempts"] else None,
        "ended_of": look_of_end,
        "events": told["events"][:FEW_EVENTS],
        "row": row,
        "again": next(each for each in whole["actions"] if each["name"] == "resume"),
        "under_way": record.work is not None and is_under_way(type(record.work).__name__),
    }


def _title(record: AgentLifecycle) -> str:
    return str(record.facts.get("task", {}).get("title") or record.task.strip().splitlines()[0])


def _question(record: AgentLifecycle) -> str:
    work = record.work
    return work.text if isinstance(work, AwaitingHuman) else ""


def _words(record: AgentLifecycle) -> Html:
    work = record.work
    text = work.summary if isinstance(work, (Completed, Accepted)) else ""
    return Html(rendered(text or record.submission_summary or ""))


class Sums(NamedTuple):
    """What all attempts used."""

    tokens: int | None
    cost_usd: float | None
    at_least: bool
    """Some attempts did not tell their cost."""
    seconds: float


def _sums(attempts: list[AttemptStoryForm]) -> Sums:
    costs = [each["cost_usd"] for each in attempts if each["cost_usd"] is not None]
    used = [each["tokens"] for each in attempts if each["tokens"]]
    return Sums(
        sum(used) if used else None,
        sum(costs) if costs else None,
        bool(costs) and len(costs) < len(attempts),
        sum(each["seconds"] for each in attempts),
    )


def _facts(record: AgentLifecycle, runner: RunnerPort) -> list[tuple[str, str]]:
    facts = record.facts
    agent: dict[str, Any] = facts.get("agent") or {}
    chain = agent.get("agents") or [agent.get("adapter") or " ".join(agent.get("command") or ())]
    head = getattr(record.work, "head", "")
    base = str(facts.get("base_branch") or "")
    pairs = [
        ("Branch", f"{facts.get('branch') or ''}{f' at {head[:10]}' if head else ''}"),
        ("Base", f"{base} {str(facts.get('base_commit') or '')[:10]}".strip()),
        ("Programs", ", then ".join(map(str, chain))),
        ("Kept apart", str(getattr(record.work, "containment", ""))),
        ("Worker", worker_of(record)),
        ("Workspace", place(str(facts.get("workspace") or ""), runner.repo)),
        ("Tags", ", ".join(record.tags)),
    ]
    return [(name, text) for name, text in pairs if text]


async def _depends(
    services: ServerServices, record: AgentLifecycle
) -> list[tuple[str, str, Look | None]]:
    """Return the tasks that it builds on: id, title, and how each does."""
    told = []
    for task in record.facts.get("task", {}).get("dependencies") or ():
        other = await services.runner.store.get(f"agent-{task}")
        look = look_of(present_row(services.board, other)) if other else None
        told.append((str(task), _title(other) if other else "", look))
    return told


async def _newest_log(
    services: ServerServices, record: AgentLifecycle, attempt: int | None
) -> LogWindowForm | None:
    if attempt is None:
        return None
    try:
        return await log_window(services.runner, record, attempt, Asked(limit=FEW_LINES))
    except Problem:  # nothing was printed yet
        return None


def _log_api(agent_id: str, attempt: int | None) -> str:
    return f"/api/v1/lifecycles/{agent_id}/attempts/{attempt}/log/window"
