"""Review of finished work: what waits, its diff and evidence, and marks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query
from starlette.responses import Response  # noqa: TC002  # FastAPI reads it at run time

from orchestrator.review.evidence import EvidenceForm
from orchestrator.review.marks import AllMarksForm, Comment, MovedError
from orchestrator.review.merge_result import MergeForm
from orchestrator.review.own_work import OF, OWN, ReviewError
from orchestrator.review.queue import WaitingListForm
from orchestrator.review.work_diff import DiffForm, DiffWish
from orchestrator.web import models  # noqa: TC001  # FastAPI reads them at run time
from orchestrator.web.actor import actor_of
from orchestrator.web.edge.answers import CHANGING, json_answer, says_no
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.edge.problems import Problem, unknown
from orchestrator.web.routes.lifecycle_actions import Actor, Id  # noqa: TC001  # FastAPI reads them at run time
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices

ONE = "/lifecycles/{agent_id}"
Of = Annotated[
    str,
    Query(
        pattern=f"^({OF})$",
        description="own: against what it builds on; all: against the base; since:N: since that "
        "attempt",
    ),
]
View = Annotated[
    Literal["unified", "split", "words", "stat"],
    Query(description="how the lines of hunks are told; stat leaves them out"),
]
File = Annotated[
    str,
    Query(max_length=4096, description="only this file, however long; else long ones are folded"),
]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()
    _reading(made, services)
    _marking(made, services)
    return made


@contextmanager
def telling() -> Iterator[None]:
    """Tell what is not there as problems."""
    try:
        yield
    except MovedError as moved:
        raise Problem(409, "moved", str(moved), "GET .../diff has it as it is now") from moved
    except ReviewError as problem:
        raise unknown(str(problem), "GET .../diff?view=stat lists the files") from problem


def _reading(made: APIRouter, services: ServerServices) -> None:
    refused = says_no(404)

    @made.get(
        "/review",
        response_model=model_of(WaitingListForm),
        summary="What waits for a person's decision, the first to take first",
    )
    async def queue() -> Response:
        return json_answer(await services.reviews.queue())

    @made.get(
        f"{ONE}/diff",
        response_model=model_of(DiffForm),
        responses=refused,
        summary="The work of a lifecycle as a diff, flagged files first",
    )
    async def diff(agent_id: Id, of: Of = OWN, file: File = "", view: View = "unified") -> Response:
        """Long, generated and lock files are folded: ask for each by `file`."""
        with telling():
            wish = DiffWish(of=of, view=view, file=file)
            return json_answer(await services.reviews.diff(agent_id, wish))

    @made.get(
        f"{ONE}/review",
        response_model=model_of(EvidenceForm),
        responses=refused,
        summary="What shows that its work is good: gates, canary, flagged files, what comes along",
    )
    async def evidence(agent_id: Id) -> Response:
        return json_answer(await services.reviews.evidence(agent_id))

    @made.get(
        f"{ONE}/merge",
        response_model=model_of(MergeForm),
        responses=refused,
        summary="What an accept would meet now; tried without moving a branch",
    )
    async def merge(agent_id: Id) -> Response:
        with telling():
            return json_answer(await services.reviews.merge(agent_id))


def _marking(made: APIRouter, services: ServerServices) -> None:
    @made.get(
        f"{ONE}/marks",
        response_model=model_of(AllMarksForm),
        responses=says_no(404),
        summary="Files that reviewers marked as seen, and their comments on lines",
    )
    async def marks(agent_id: Id, actor: Actor = "") -> Response:
        """What was marked of contents that changed since is left out, or called outdated."""
        with telling():
            return json_answer(await services.reviews.marks(agent_id, actor_of(actor)))

    @made.put(
        f"{ONE}/marks",
        response_model=model_of(AllMarksForm),
        responses=says_no(*CHANGING, 404),
        summary="Replace what you marked",
    )
    async def keep(agent_id: Id, asked: models.Marks, actor: Actor = "") -> Response:
        """409 `moved` if the work is at another commit than the one that you looked at."""
        with telling():
            told = await services.reviews.keep_marks(
                agent_id, actor_of(actor), asked.head, asked.seen, comments_of(asked.comments)
            )
            return json_answer(told)


def comments_of(given: list[models.LineComment]) -> tuple[Comment, ...]:
    """Return comments as they are kept."""
    return tuple(
        Comment(file=each.file, line=each.line, side=each.side, text=each.text) for each in given
    )
