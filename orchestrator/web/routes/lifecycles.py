"""Reading lifecycles: lists, one of them, its journal and logs.

Answers are made by the functions that `--json` uses. Must not change anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Header, Path, Query
from starlette.responses import Response

from lifecycle.machine.states import TERMINAL, AgentState
from lifecycle.record import AgentLifecycle, Filter, worker_of
from lifecycle.state_words import NEEDS_YOU, RECORD_STATES, meant, word_on
from lifecycle.store.damaged_records import Damaged, Listed
from orchestrator.web import models
from orchestrator.web.edge.answers import as_text, json_answer, says_no
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.live.streams import is_number
from orchestrator.web.log_files import log_answer
from orchestrator.web.operator import found
from orchestrator.web.reading.whole import whole_of
from orchestrator.wording.json_forms import (
    WholeForm,
    columns_of,
    entry_form,
)
from orchestrator.wording.json_schemas import model_of
from orchestrator.wording.lifecycle_row import row_of
from orchestrator.wording.workers import UNPLACED, unplaced_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices

MOST = 1000
_SEARCHED = 1000
"""Records that one page looks through for states; a page may then be short."""
_STEP = 200
_LARGEST = 2**53 - 1

Id = Annotated[str, Path(description="the agent's id")]
Number = Annotated[int, Path(ge=0, le=1_000_000_000)]
Cursor = Annotated[int | None, Query(ge=0, le=_LARGEST, description="`next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=MOST)]
Instant = Annotated[
    float | None, Query(ge=0, allow_inf_nan=False, description="seconds since the epoch")
]
Tag = Annotated[list[str], Query(max_length=16, description="only with all of these")]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()
    _lists(made, services)
    _journals(made, services)
    _texts(made, services)
    return made


def _lists(made: APIRouter, services: ServerServices) -> None:
    runner = services.runner

    @made.get(
        "/lifecycles",
        response_model=model_of(models.RowsForm),
        summary="List lifecycles, newest first",
    )
    async def listed(  # noqa: PLR0913, PLR0917  # one for each filter
        state: Annotated[list[models.MeantWord], Query(max_length=16)] = [],  # noqa: B006  # never changed
        record_state: Annotated[
            list[AgentState], Query(max_length=16, description="only these of the five")
        ] = [],  # noqa: B006  # as above
        work: Annotated[
            list[models.WorkState], Query(max_length=16, description="only in these work states")
        ] = [],  # noqa: B006  # as above
        tag: Tag = [],  # noqa: B006  # as above
        task: Annotated[str | None, Query(max_length=200)] = None,
        worker: Annotated[
            str, Query(max_length=64, description="only what this worker has, or had last")
        ] = "",
        created_after: Instant = None,
        created_before: Instant = None,
        earlier: Annotated[
            str | None, Query(max_length=200, description="the earlier lifecycles of this agent")
        ] = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> Response:
        """Everything given must fit; each agent's earlier lifecycles come only by `earlier`.

        With `state`, `work` or `worker` a page may be short, or empty, before the last.
        """
        which = StateFilter(frozenset(map(meant, state)), frozenset(map(str, work)), worker)
        states = which.read(record_state)
        if states is None:
            return json_answer({"items": [], "next": None})
        asked = Filter(
            states=states,
            tags=tuple(tag),
            task_id=task,
            created_after=created_after,
            created_before=created_before,
            current=earlier is None,
            earlier_of=earlier,
        )
        page = await _page(services, asked, which, cursor, limit)
        present = runner.now()
        silent = await runner.store.workers.silent(present)
        unplaced = await runner.store.all(UNPLACED)
        rows = [
            row_of(
                columns_of(each),
                present,
                silent=silent,
                unplaced=unplaced_in(unplaced, each.agent_id),
            )
            for each in sorted(page.named, key=lambda each: each.cursor, reverse=True)
        ]
        return json_answer({"items": rows, "next": page.next_cursor})

    @made.get(
        "/lifecycles/{agent_id}",
        response_model=model_of(WholeForm),
        responses=says_no(404),
        summary="All about one lifecycle",
    )
    async def one(agent_id: Id) -> Response:
        """Return the record, why it is where it is, its attempts and where its files are."""
        return json_answer(await whole_of(runner, await found(runner, agent_id)))


@dataclass(frozen=True, slots=True)
class StateFilter:
    """Which lifecycles a list holds by states and worker; nothing given is any."""

    words: frozenset[str]
    kinds: frozenset[str]
    worker: str = ""

    @property
    def takes_all(self) -> bool:
        """Whether nothing was given."""
        return not (self.words or self.kinds or self.worker)

    def read(self, chosen: Sequence[str]) -> tuple[AgentState, ...] | None:
        """Return the states of records to read; all if empty, and none at all if None."""
        if not self.words:
            return tuple(map(AgentState, chosen))
        read = {each for word in self.words for each in RECORD_STATES[word]}
        return tuple(AgentState(each) for each in sorted(read & set(chosen or read))) or None

    def fits(self, found: AgentLifecycle | Damaged) -> bool:
        """Tell whether one is wanted; what is damaged may be in any work state."""
        if isinstance(found, Damaged):
            return not self.worker and (not self.words or NEEDS_YOU in self.words)
        if self.worker and worker_of(found) != self.worker:
            return False
        kind = not self.kinds or type(found.work).__name__ in self.kinds
        return kind and (not self.words or word_on(found) in self.words)


async def _page(
    services: ServerServices, asked: Filter, which: StateFilter, cursor: int | None, limit: int
) -> Listed:
    """Return a page."""
    store = services.runner.store
    if which.takes_all:
        return await store.list(asked, cursor=cursor, limit=limit)
    records, damaged = list[AgentLifecycle](), list[Damaged]()

    def found(following: int | None) -> Listed:
        place = following or 0
        passed = tuple(each for each in damaged if each.cursor > place)
        return Listed(records=tuple(records), damaged=passed, next_cursor=following)

    for _ in range(0, _SEARCHED, _STEP):
        page = await store.list(asked, cursor=cursor, limit=_STEP)
        damaged += filter(which.fits, page.damaged)
        for record in page.records:
            if which.fits(record):
                records.append(record)
                if len(records) == limit:
                    last = record is page.records[-1] and page.next_cursor is None
                    return found(None if last else record.cursor)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found(cursor)


def _journals(made: APIRouter, services: ServerServices) -> None:
    runner = services.runner

    @made.get(
        "/lifecycles/{agent_id}/events",
        response_model=model_of(models.EntriesForm),
        responses={
            200: {
                "description": "a piece of the journal; with Accept: text/event-stream each entry "
                "as it comes, numbered by `seq`, then `end`",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            204: {"description": "as a stream: it is over, and nothing is missing"},
            **says_no(404),
        },
        summary="The journal of a lifecycle, as a list or as a stream",
    )
    async def events(
        agent_id: Id,
        after: Annotated[int, Query(ge=0, le=_LARGEST, description="only after this seq")] = 0,
        limit: Limit = 100,
        accept: Annotated[str, Header(include_in_schema=False)] = "",
        last_event_id: Annotated[str, Header(max_length=100)] = "",
    ) -> Response:
        """A stream continues after `Last-Event-ID`; it ends when the lifecycle is over."""
        record = await found(runner, agent_id)
        if "text/event-stream" not in accept:
            entries = await runner.store.journal(agent_id, after=after, limit=limit + 1)
            items = [entry_form(entry) for entry in entries[:limit]]
            more = entries[limit - 1].seq if len(entries) > limit else None
            return json_answer({"items": items, "next": more})
        seen = int(last_event_id) if is_number(last_event_id) else after
        if last_event_id and isinstance(record.work, TERMINAL):
            missed = await runner.store.journal(agent_id, after=seen, limit=1)
            if not missed:
                # What a browser needs to be told so as not to come back for ever.
                return Response(status_code=204)
        return services.stream(services.streams.journal(agent_id, seen))


def _texts(made: APIRouter, services: ServerServices) -> None:
    runner = services.runner

    @made.get(
        "/lifecycles/{agent_id}/attempts/{attempt}/log",
        response_class=Response,
        responses={
            200: as_text("what the agent printed, as it is"),
            206: as_text("a part of it"),
            **says_no(404, 416),
        },
        summary="What the agent of an attempt printed",
    )
    async def log(
        agent_id: Id,
        attempt: Number,
        tail: Annotated[
            int | None, Query(ge=1, le=100_000, description="only so many lines of its end")
        ] = None,
        part: Annotated[str, Header(alias="range", max_length=100)] = "",
    ) -> Response:
        """One range of bytes may be asked for; `tail` comes before it."""
        await found(runner, agent_id)
        return log_answer(runner.engine.machine.paths.log(agent_id, attempt), tail=tail, part=part)
