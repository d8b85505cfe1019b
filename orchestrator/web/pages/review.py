"""The walk through what waits for a decision: words, proof, diff, own marks, and the deed.

Must not read anything but what the API gives as well. What is accepted is what was shown.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import HTMLResponse, Response

from lifecycle.state_words import GIVEN_UP_NEED
from orchestrator.control.commands import OperatorCommand
from orchestrator.review.marks import TOGETHER, Comment, guidance
from orchestrator.review.own_work import ALL, OF, OWN, ReviewError
from orchestrator.review.work_diff import UNIFIED, DiffWish
from orchestrator.web.edge.problems import Problem, invalid, refused
from orchestrator.web.formats import short
from orchestrator.web.operator import found, steer
from orchestrator.web.pages.diff_html import DiffWriter
from orchestrator.web.pages.looks import look_of, look_of_need
from orchestrator.web.pages.site import (
    actor,
    agent_of,
    form,
    is_htmx,
    page,
    piece,
    see,
    task_url,
    visitor_of,
)
from orchestrator.web.reading.board import present_row
from orchestrator.web.reading.story import story
from orchestrator.wording.markdown import rendered
from orchestrator.wording.possible_actions import why_not
from templates.renderer import Html

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.record import AgentLifecycle
    from orchestrator.review.evidence import EvidenceForm
    from orchestrator.review.marks import AllMarksForm
    from orchestrator.review.queue import WaitingForm
    from orchestrator.review.work_diff import DiffForm, FileForm
    from orchestrator.web.pages.looks import Look
    from orchestrator.web.services import ServerServices

ROOM = 200_000
"""Characters of HTML of all diffs on a page; the rest comes by file."""
_PLACE = re.compile(r"(\d{1,5})([on])(\d{1,9})")
"""A line of a page: number of its file, old or new side, number of the line."""


class FileBox(NamedTuple):
    """A file as the page shows it."""

    file: FileForm
    anchor: str
    table: Html | None
    """None where its lines are not on this page."""
    why_not: str
    seen: bool
    comments: int


@dataclass(frozen=True, slots=True)
class View:
    """How the diff is looked at."""

    of: str
    split: bool
    file: str

    def query(self, **more: object) -> str:
        """Return the query that keeps the view."""
        told = {
            "of": self.of if self.of != "own" else None,
            "view": "split" if self.split else None,
            "file": self.file or None,
            **more,
        }
        return urlencode({key: value for key, value in told.items() if value is not None})


def router(services: ServerServices) -> APIRouter:
    """Return the pages."""
    made = APIRouter(include_in_schema=False)
    _looks(made, services)
    _marks(made, services)
    return made


def _looks(made: APIRouter, services: ServerServices) -> None:
    @made.get("/review")
    async def begin(request: Request) -> Response:
        queue = await _queue(services)
        if queue:
            return see(_url(queue[0]["agent_id"]))
        return page(request, "review_empty.html", title="Nothing needs you", here="review")

    @made.get("/review/{task}")
    async def look(  # noqa: PLR0913, PLR0917  # one for each wish in the address
        request: Request,
        task: str,
        of: Annotated[str, Query(pattern=f"^(?:{OF})$")] = "own",
        view: Annotated[str, Query(max_length=10)] = "",
        file: Annotated[str, Query(max_length=4096)] = "",
        c: Annotated[str, Query(max_length=20)] = "",
    ) -> Response:
        agent_id = await agent_of(services, task)
        if short(agent_id) != task:
            return see(_url(agent_id))
        record = await found(services.runner, agent_id)
        shown = View(of, view == "split", file)
        return await _page(request, services, record, shown, c)

    @made.get("/review/{task}/merge")
    async def merged(request: Request, task: str) -> Response:
        agent_id = await agent_of(services, task)
        try:
            told = await services.reviews.merge(agent_id)
        except ReviewError as problem:
            raise refused(str(problem)) from problem
        if is_htmx(request):
            return HTMLResponse(piece("parts/merge.html", merge=told))
        return page(
            request,
            "merge.html",
            title=f"Merge of {short(agent_id)}",
            here="review",
            merge=told,
            back=_url(agent_id),
            agent_id=agent_id,
        )


async def _page(
    request: Request, services: ServerServices, record: AgentLifecycle, view: View, place: str
) -> Response:
    agent_id = record.agent_id
    visitor = visitor_of(request)
    operates = bool(visitor and visitor.may("operator"))
    await services.board.look()
    queue, proof, (diff, marks, why_none), told = await asyncio.gather(
        _queue(services),
        services.reviews.evidence(agent_id),
        _diff(services, record, view, actor(request)),
        story(services.runner, record),
    )
    at = next((n for n, each in enumerate(queue) if each["agent_id"] == agent_id), None)
    files = (
        _files(record, diff, marks, view, place, operates, getattr(visitor, "guard", ""))
        if diff and marks
        else []
    )
    mine = marks["mine"]["comments"] if marks else []
    unseen = marks["unseen_flagged"] if marks else []
    following = queue[(at + 1) % len(queue)] if at is not None and len(queue) > 1 else None
    return page(
        request,
        "review.html",
        title=f"Review {short(agent_id)}",
        here="review",
        queue=queue,
        at=at,
        looks=_looks_of(queue),
        before=queue[at - 1] if at else None,
        following=following,
        record=record,
        agent_id=agent_id,
        name=proof["title"] or record.task.strip().splitlines()[0],
        look=look_of(present_row(services.board, record)),
        proof=proof,
        why_not_again=why_not(record, "resume", services.runner.settings())
        if proof["needs"] == GIVEN_UP_NEED
        else "",
        words=Html(rendered(proof["words"])),
        diff=diff,
        files=files,
        why_none=why_none,
        view=view,
        url=_url(agent_id),
        here_url=f"{_url(agent_id)}?{view.query()}",
        mine=mine,
        others=marks["others"] if marks else [],
        unseen=unseen,
        send_back=bool(mine or unseen) or proof["needs"] == "conflict",
        attempts=[each for each in told["attempts"] if each["outcome"]][:6],
        last=told["attempts"][0] if told["attempts"] else None,
        sinces=[each["attempt"] for each in told["attempts"][1:6]],
        merge_words=TOGETHER.format(proof["into"]),
        one_click=_is_shown(proof, diff, files, view) and not (unseen or mine),
    )


def _is_shown(
    proof: EvidenceForm, diff: DiffForm | None, files: Sequence[FileBox], view: View
) -> bool:
    """Tell whether the page shows each line that an accept would merge."""
    if diff is None or proof["needs"] != "review" or proof["comes_along"]:
        return False
    if view.file or view.of not in (OWN, ALL):
        return False
    apart = any(each.file["binary"] or each.why_not for each in files)
    return bool(files) and not apart and diff["head"] == proof["head"]


async def _queue(services: ServerServices) -> list[WaitingForm]:
    return (await services.reviews.queue())["items"]


def _looks_of(queue: Sequence[WaitingForm]) -> dict[str, Look]:
    return {
        each["agent_id"]: look_of_need(each["needs"], flagged=bool(each["flagged"]))
        for each in queue
    }


async def _diff(
    services: ServerServices, record: AgentLifecycle, view: View, person: str
) -> tuple[DiffForm | None, AllMarksForm | None, str]:
    """Return the diff and who marked what of it, or why there is none."""
    try:
        wish = DiffWish(of=view.of, view=UNIFIED, file=view.file)
        diff, marks = await asyncio.gather(
            services.reviews.diff(record.agent_id, wish),
            services.reviews.marks(record.agent_id, person),
        )
    except ReviewError as problem:
        return None, None, str(problem)
    return diff, marks, ""


def _files(  # noqa: PLR0913, PLR0917  # all that one file's box is made of
    record: AgentLifecycle,
    diff: DiffForm,
    marks: AllMarksForm,
    view: View,
    place: str,
    operates: bool,  # noqa: FBT001  # as above
    guard: str,
) -> list[FileBox]:
    """Return the files, with the lines of as many as there is room for."""
    comments = [*marks["mine"]["comments"]]
    below = {
        (each["file"], each["side"], each["line"]): piece(
            "parts/comment.html", comment=each, own=True
        )
        for each in comments
    }
    for other in marks["others"]:
        for each in other["comments"]:
            key = each["file"], each["side"], each["line"]
            text = piece("parts/comment.html", comment=each, own=False, person=other["person"])
            below[key] = below.get(key, "") + text
    files = diff["files"]
    if operates and (asked := _PLACE.fullmatch(place)) and int(asked[1]) < len(files):
        key = files[int(asked[1])]["path"], "old" if asked[2] == "o" else "new", int(asked[3])
        below[key] = below.get(key, "") + piece(
            "parts/comment_form.html",
            file=key[0],
            side=key[1],
            line=key[2],
            name=place,
            csrf=guard,
            head=diff["head"],
            action=f"{_url(record.agent_id)}/comment",
            back=f"{_url(record.agent_id)}?{view.query()}#l{place}",
        )
    href = (
        f"?{escape(view.query(), quote=True)}{'&amp;' if view.query() else ''}c="
        if operates
        else ""
    )
    writer = DiffWriter(href=href, below=below)
    room, shown = ROOM, list[FileBox]()
    for number, file in enumerate(files):
        why_not, table = file["folded"], None
        if not why_not and file["hunks"] and room <= 0:
            why_not = "the page is long already"
        if not why_not and file["hunks"]:
            table = writer.table(file, number, split=view.split)
            room -= len(table)
        count = sum(each["file"] == file["path"] for each in comments)
        seen = file["path"] in marks["mine"]["seen"]
        shown.append(FileBox(file, anchor(file["path"]), table, why_not, seen, count))
    return shown


def anchor(path: str) -> str:
    """Return the name of a file's place on the page."""
    return "f-" + re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")


def _url(agent_id: str) -> str:
    return task_url(agent_id).replace("/t/", "/review/", 1)


def _marks(made: APIRouter, services: ServerServices) -> None:
    @made.post("/review/{task}/seen")
    async def seen(request: Request, task: str) -> Response:
        sent, agent_id = form(request), await agent_of(services, task)
        path, on = sent.text("file"), sent.text("seen") == "1"
        kept = await _kept(services, agent_id, actor(request))
        files = [each for each in kept["mine"]["seen"] if each != path]
        await _keep(services, agent_id, request, [*files, path] if on else files, _given(kept))
        return see(f"{_url(agent_id)}?{sent.text('query')}#{anchor(path)}")

    @made.post("/review/{task}/comment")
    async def comment(request: Request, task: str) -> Response:
        sent, agent_id = form(request), await agent_of(services, task)
        file, line, text = sent.text("file"), sent.text("line"), sent.text("text")
        if not text or not line.isdigit():
            raise invalid("there is nothing to say yet", "go back, and write the comment")
        kept = await _kept(services, agent_id, actor(request))
        side = "old" if sent.text("side") == "old" else "new"
        told = Comment(file=file, line=int(line[:9]), side=side, text=text)
        await _keep(services, agent_id, request, kept["mine"]["seen"], [*_given(kept), told])
        return see(_back(sent.text("back"), agent_id))

    @made.post("/review/{task}/uncomment")
    async def uncomment(request: Request, task: str) -> Response:
        sent, agent_id = form(request), await agent_of(services, task)
        kept = await _kept(services, agent_id, actor(request))
        gone = sent.text("file"), sent.text("side"), sent.text("line"), sent.text("text")
        left = [
            each
            for each in _given(kept)
            if (each.file, each.side, str(each.line), each.text.strip()) != gone
        ]
        await _keep(services, agent_id, request, kept["mine"]["seen"], left)
        return see(_back(sent.text("back"), agent_id))

    @made.post("/review/{task}/back")
    async def back(request: Request, task: str) -> Response:
        agent_id, person = await agent_of(services, task), actor(request)
        kept = await _kept(services, agent_id, person)
        text = guidance(form(request).text("text"), _given(kept))
        if not text:
            raise invalid(
                "there is nothing to say yet", "go back, and write what is to change, or a comment"
            )
        order = OperatorCommand(verb="guide", agent_id=agent_id, text=text, by=person)
        await steer(services.runner, order)
        await services.reviews.forget_comments(agent_id, person)
        return see("/review")


async def _kept(services: ServerServices, agent_id: str, person: str) -> AllMarksForm:
    try:
        return await services.reviews.marks(agent_id, person)
    except ReviewError as problem:
        raise refused(str(problem), "go back, and look at it again") from problem


def _given(kept: AllMarksForm) -> list[Comment]:
    return [
        Comment(file=each["file"], line=each["line"], side=each["side"], text=each["text"])
        for each in kept["mine"]["comments"]
    ]


async def _keep(
    services: ServerServices,
    agent_id: str,
    request: Request,
    seen: Sequence[str],
    comments: Sequence[Comment],
) -> None:
    head = form(request).text("head")
    try:
        await services.reviews.keep_marks(agent_id, actor(request), head, seen, comments)
    except ReviewError as problem:
        raise Problem(409, "moved", str(problem), "go back, and look at it again") from problem


def _back(given: str, agent_id: str) -> str:
    return given if given.startswith(_url(agent_id)) else _url(agent_id)
