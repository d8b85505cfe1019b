"""The board: every task of the repository, what needs a person first.

Must not read anything but what `orchestrator.web.reading` gives.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import HTMLResponse, Response

from lifecycle.machine.states import Working
from orchestrator.terminal.text import span
from orchestrator.web.edge.answers import as_text, says_no
from orchestrator.web.formats import many, short
from orchestrator.web.pages.looks import GROUPS, button_of, look_of
from orchestrator.web.pages.ribbon import HOURS, night_of
from orchestrator.web.pages.site import page, piece, visitor_of
from orchestrator.web.reading.attempts import attempts
from orchestrator.web.reading.board import BoardFilter, board, present_row
from templates.renderer import Html

if TYPE_CHECKING:
    from collections.abc import Collection

    from orchestrator.web.edge.problems import Problem
    from orchestrator.web.reading.board import BoardForm, BoardRowForm
    from orchestrator.web.services import ServerServices

WELCOME = """\
Loopwright runs here. The API is described by /openapi.json, beginning with /api/v1/lifecycles.

  curl -H "Authorization: Bearer $(cat TOKEN_FILE)" ADDRESS/api/v1/lifecycles

The command that started the server says where the token is. A browser gets the dashboard here.
"""
GUARD = f"guard-{secrets.token_hex(16)}"
"""Stands in pieces that are made once for all who look, until one of them gets it."""
LASTS = 2.0
"""Seconds for which one piece is given to all who ask for the same view, if nothing changed."""
NIGHT_LASTS = 5.0
MOST_KEPT = 50


def router(services: ServerServices) -> APIRouter:
    """Return the page."""
    made = APIRouter()
    pieces = BoardPieces(services)

    @made.get(
        "/",
        response_class=Response,
        responses={
            200: as_text("the dashboard for a browser; else where to go next"),
            **says_no(401, 403, 405, 421, 429, 500, 503),
        },
        summary="Where to go next",
    )
    async def top(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return Response(WELCOME, media_type="text/plain")
        asked = filter_of(request)
        await services.board.look()
        if not services.board.records and not services.board.damaged:
            return page(request, "empty.html", title="Start", here="board", **empty(services))
        return page(
            request,
            "board.html",
            title=pieces.title(),
            here="board",
            live=live_address("board", services.board.version, **fields_of(asked)),
            board=await pieces.whole(request, asked),
        )

    @made.get("/ui/board", include_in_schema=False)
    async def again(request: Request) -> Response:
        return HTMLResponse(await pieces.whole(request, filter_of(request)))

    return made


def filter_of(request: Request) -> BoardFilter:
    """Return what an address asks for; what is no group counts as none."""
    given = request.query_params
    group = "me" if given.get("needs") == "me" else given.get("group", "")
    return BoardFilter(
        group if group in GROUPS else "",
        given.get("plan", "")[:200],
        given.get("agent", "")[:200],
        given.get("q", "")[:200],
        everything=group in GROUPS,
    )


def live_address(view: str, version: int, **fields: str) -> str:
    """Return the address of the stream of a page that was made of this version."""
    return f"/ui/events?{urlencode({'view': view, 'version': version, **fields})}"


def fields_of(asked: BoardFilter, **other: str) -> dict[str, str]:
    """Return the fields of an address that asks for the same."""
    told = {
        "group": asked.group,
        "plan": asked.plan,
        "agent": asked.program,
        "q": asked.words,
        **other,
    }
    return {key: value for key, value in told.items() if value}


def address(asked: BoardFilter, **other: str) -> str:
    """Return the address of a view of the board."""
    fields = fields_of(asked, **other)
    return f"/?{urlencode(fields)}" if fields else "/"


def empty(services: ServerServices) -> dict[str, Any]:
    """Return what the page of a first start shows."""
    settings = services.runner.settings()
    program = settings.adapter or " ".join(settings.command or ())
    return {
        "verify": "\n".join(settings.verify),
        "program": ", ".join(settings.agents) or program or "",
        "sent": {},
        "problem": None,
    }


class BoardPieces:
    """Pieces of the board, each made once for all who look at the same view."""

    def __init__(self, services: ServerServices) -> None:
        self._services = services
        self._kept: dict[Any, tuple[float, int, str]] = {}
        self._drawn: tuple[float, dict[str, Any]] | None = None

    def title(self) -> str:
        """Return what the browser's tab says."""
        needs = self._services.board.needs()
        return f"{needs} need you" if needs > 1 else f"{needs or 'nothing'} needs you".capitalize()

    async def whole(self, request: Request, asked: BoardFilter) -> Html:
        """Return all below the bar at the top, for who looks."""
        visitor = visitor_of(request)
        operate = bool(visitor and visitor.may("operator"))
        text = await self._shared(asked, operate=operate)
        return Html(text.replace(GUARD, visitor.guard if visitor else ""))

    async def _shared(self, asked: BoardFilter, *, operate: bool) -> str:
        services, key = self._services, (asked, operate)
        now = services.runner.now()
        kept = self._kept.get(key)
        if kept and kept[1] == services.board.version and 0 <= now - kept[0] < LASTS:
            return kept[2]
        found = await board(services.board, asked)
        night = await self._night(now)
        text = piece(
            "parts/board.html",
            **self._values(found, asked, operate=operate, now=now, night=night),
        )
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = now, found["version"], text
        return text

    async def _night(self, now: float) -> dict[str, Any]:
        """Return the drawing of the night; a moment old, as it is the same for all views."""
        if self._drawn is None or not 0 <= now - self._drawn[0] < NIGHT_LASTS:
            worked = await attempts(self._services.runner, now - HOURS * 3600)
            self._drawn = now, night_of(worked["items"], now)
        return self._drawn[1]

    def _values(
        self,
        found: BoardForm,
        asked: BoardFilter,
        *,
        operate: bool,
        now: float,
        night: dict[str, Any],
    ) -> dict[str, Any]:
        counts = found["counts"]
        back = address(asked)
        groups, opened = [], False
        for group in found["groups"]:
            name, colour, says = GROUPS[group["group"]]
            rows = []
            for row in group["rows"]:
                first = not opened and row["needs"] == "answer"
                opened = opened or first
                rows.append(row_piece(row, now=now, operate=operate, back=back, opened=first))
            key = group["group"]
            older = key == "done" and not self._services.board.keeps_all
            if not (rows or older) and key != "me" and not asked.group:
                continue
            rest = group["total"] - len(rows)
            most = found["slots"]["most"]
            if key == "working":
                says = f"{found['slots']['used']} of {most} slots in use" if most else ""
            groups.append(
                {
                    "key": key,
                    "name": name,
                    "colour": colour,
                    "says": says,
                    "rows": rows,
                    "total": group["total"],
                    "rest": rest if not (asked.group and key == "done") else 0,
                    "more": "/history" if key == "done" else address(asked, group=key),
                    "older": f"/history?{urlencode({'q': asked.words})}" if older else "",
                    "empty": self._nothing(found, key, now),
                }
            )
        shown: list[tuple[str, int]] = [
            ("me", counts["me"]),
            ("working", counts["working"]),
            ("waiting", counts["waiting"]),
            ("queued", counts["queued"]),
            ("done", counts["done"]),
        ]
        tabs = [(address(asked, group=""), "All", sum(count for _, count in shown))]
        tabs += [
            (address(asked, group=key), GROUPS[key][0].replace(" outside", ""), count)
            for key, count in shown
        ]
        greens = sum(
            row["needs"] == "review" and row["gates"] > 0 and not row["flagged"]
            for group in found["groups"]
            for row in group["rows"]
        )
        reviews = sum(
            row["needs"] in {"review", "conflict"}
            for group in found["groups"]
            for row in group["rows"]
        )
        return {
            "board": found,
            "asked": asked,
            "groups": groups,
            "tabs": tabs,
            "here_tab": 1 + list(GROUPS).index(asked.group) if asked.group else 0,
            "headline": headline(counts["me"]),
            "summary": summary(found, now),
            "operate": operate,
            "reviews": reviews,
            "greens": greens,
            "night": night,
            "now": now,
        }

    @staticmethod
    def _nothing(found: BoardForm, key: str, now: float) -> str:
        if key != "me":
            return "Nothing here."
        outside = found["counts"]["waiting"]
        waits = (
            f" {many(outside, 'task')} wait{'s' if outside == 1 else ''} outside;"
            if outside
            else ""
        )
        return f"Nothing needs you.{waits} newest event {span(now - found['newest'])} ago."


def headline(needs: int) -> str:
    """Return the first line, which answers what needs the one who looks."""
    if not needs:
        return "Nothing needs you"
    return f"{many(needs, 'task')} need{'s' if needs == 1 else ''} you"


def summary(found: BoardForm, now: float) -> str:
    """Return the second line."""
    counts = found["counts"]
    parts = [
        f"{counts['working']} work" if counts["working"] != 1 else "1 works",
        f"{counts['waiting']} wait outside" if counts["waiting"] != 1 else "1 waits outside",
        f"{counts['queued']} {'is' if counts['queued'] == 1 else 'are'} queued",
        f"{counts['done']} done",
    ]
    return f"{', '.join(parts)}. Newest event {span(now - found['newest'])} ago."


def row_piece(  # noqa: PLR0913  # all by name
    row: BoardRowForm,
    *,
    now: float,
    operate: bool,
    back: str = "/",
    opened: bool = False,
    problem: Problem | None = None,
    typed: str = "",
    repo: str = "",
) -> Html:
    """Return a row as HTML, with `GUARD` where the form's guard belongs.

    `repo` is named on it, where rows of several are shown together.
    """
    return Html(
        piece(
            "parts/row.html",
            row=row,
            look=look_of(row),
            button=button_of(row),
            now=now,
            operate=operate,
            open=opened,
            guard=GUARD,
            back=back,
            problem=problem,
            typed=typed,
            repo=repo,
        )
    )


class BoardNews:
    """What changes on one view of the board."""

    def __init__(self, services: ServerServices, asked: BoardFilter, *, operate: bool) -> None:
        self._services = services
        self._asked = asked
        self._operate = operate
        self._said: dict[str, str] = {}
        self._counts = ""
        self._workers = ""

    async def pieces(self, changed: Collection[str], look: bool) -> list[tuple[str, str]]:  # noqa: FBT001  # as all makers
        """Return the rows that changed; with `look` also what agents do at the moment."""
        services, made = self._services, list[tuple[str, str]]()
        if changed:
            await services.board.look()
        now = services.runner.now()
        for agent_id in changed:
            record = services.board.records.get(agent_id)
            if record is None:
                continue
            row = present_row(services.board, record)
            self._said[agent_id] = row["doing"]
            text = row_piece(row, now=now, operate=self._operate, back=address(self._asked))
            made.append((f"row:{short(agent_id)}", text))
        if look:
            made += self._words()
            made += await self._strip()
        if changed:
            found = await board(services.board, self._asked)
            counts = summary(found, now)
            if counts.partition(". Newest")[0] != self._counts:
                self._counts = counts.partition(". Newest")[0]
                made.append(("counts", counts))
                made.append(("headline", headline(found["counts"]["me"])))
        return made

    async def _strip(self) -> list[tuple[str, str]]:
        """Return the workers, if one came, left, or is silent."""
        state = self._services.board
        await state.look_at_workers()
        shown = {"workers": state.workers_now(), "now": state.runner.now()}
        text = piece("parts/workers.html", **shown).strip()
        before, self._workers = self._workers, text
        return [("workers", text)] if text != before else []

    def _words(self) -> list[tuple[str, str]]:
        made = []
        for agent_id, local in self._services.runner.engine.running().items():
            if not isinstance(local.record.work, Working):
                continue
            words = self._services.board.activity.doing(agent_id).text
            if words and self._said.get(agent_id) != words:
                self._said[agent_id] = words
                made.append((f"words:{short(agent_id)}", words_piece(words)))
        return made


def words_piece(words: str) -> str:
    """Return what an agent does at the moment, as HTML."""
    return piece("parts/words.html", words=words)
