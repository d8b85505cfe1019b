"""What every served forge shares: people, tokens, pull requests that follow a real repository.

Owns who may ask, one request at a time, pages of lists, ids and times. How a forge calls things,
and its own rules, are in that forge's folder.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from tests.ci.forge_server import Reply, answers, moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ci.forge_server import Asked, ForgeServer
    from tests.ci.served_git import Origin


class Refusal(Exception):  # noqa: N818  # an answer, no fault
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(kw_only=True)
class Pull:
    """A pull request, as far as all forges have the same."""

    number: int
    branch: str
    base: str
    title: str
    body: str
    created: float
    author: Any
    state: str
    head: str = ""
    updated: float = 0.0
    head_repo: int | None = 5
    """The repository of its branch; ours is 5."""
    asked: list[Any] = field(default_factory=list)
    """Who is asked for a review."""
    assignees: list[Any] = field(default_factory=list)
    looked: tuple[str, str] = ("", "")
    """The head and the base that the server has compared, to know whether it merges."""


@dataclass(kw_only=True)
class Issue:
    """An issue, as far as all forges have the same."""

    open: bool = True
    locked: bool = False
    """Nobody but people who may write comments on it, and no token of ours."""
    labels: list[str] = field(default_factory=list)
    comments: list[dict[str, Any]] = field(default_factory=list)
    title: str = "Add"
    body: str = ""


P = TypeVar("P", bound=Pull)


class ServedForge(Generic[P]):
    """One repository's state, and the answers of a `ForgeServer` about it.

    What a test wants otherwise is an attribute here, or a route of its own.
    """

    pages: tuple[str, int, int]
    """The name of a page's size in a query, its usual size and its greatest."""
    tags = False
    """Answers carry an ETag."""
    first_name: str
    """How the repository is called in addresses, until a test gives `repo` another name."""
    slash = "/"
    """What stands unquoted in its name."""
    moves = 307
    """How requests under the old name are answered."""

    def __init__(self, server: ForgeServer, origin: Origin, now: Callable[[], float]) -> None:
        self.server = server
        self.repo = self.first_name
        self.url = server.url
        self.origin = origin
        self.faults: list[str] = []
        """What was asked otherwise than the forge's own description says."""
        self.now = now
        self.tokens: dict[str, Any] = {}
        self.scopes: set[str] = set()
        self.pulls: dict[int, P] = {}
        self.issues: dict[int, Issue] = {}
        self.statuses: list[dict[str, Any]] = []
        self._me: Any = None
        self._ids = 100
        self._one_by_one = asyncio.Lock()
        for method, path, handler in self.routes():
            server.route(method, path, self._guarded(handler))

    def routes(self) -> list[tuple[str, str, Callable[[Asked], Any]]]:
        """Return what is answered: a reply, or JSON."""
        raise NotImplementedError

    def fault_of(self, asked: Asked) -> str:
        """Return what the description of the forge's API has against a request."""
        del asked
        return ""

    def sign_in(self, asked: Asked) -> None:
        """Refuse a request that this token may not make; set who asks."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Notice what was pushed."""
        raise NotImplementedError

    def issue_at(self, asked: Asked, name: str) -> Issue:
        """Return the issue that a request is about; one that is locked takes no comment."""
        issue = self.issues.get(int(asked.names[name]))
        if issue is None:
            raise Refusal(404, "404 Not found")
        if issue.locked and asked.method != "GET" and "abel" not in asked.path:
            raise Refusal(403, "the issue is locked")
        return issue

    def issues_for(self, query: dict[str, str], word: str) -> list[tuple[int, Issue]]:
        """Return the open issues that have these labels and the word that is searched for."""
        labels = {each for each in query.get("labels", "").split(",") if each}
        words = query.get(word, "").lower()
        return [
            (number, issue)
            for number, issue in self.issues.items()
            if issue.open
            and labels <= set(issue.labels)
            and words in f"{issue.title} {issue.body}".lower()
        ]

    def _guarded(self, handler: Callable[[Asked], Any]) -> Callable[[Asked], Any]:
        def answer(asked: Asked) -> Reply:
            old, new = (quote(each, safe=self.slash) for each in (self.first_name, self.repo))
            if old != new and f"/{old}" in asked.path:
                tail = f"?{urlencode(asked.query)}" if asked.query else ""
                return moved(asked.path.replace(f"/{old}", f"/{new}", 1) + tail, status=self.moves)
            if fault := self.fault_of(asked):
                self.faults.append(fault)
            try:
                self.sign_in(asked)
                self.refresh()
                body = handler(asked)
            except Refusal as refusal:
                return answers({"message": str(refusal)}, status=refusal.status)
            if isinstance(body, Reply):
                return body
            return self.page(asked, body) if isinstance(body, list) else self._told(body)

        async def aside(asked: Asked) -> Reply:
            async with self._one_by_one:
                return await asyncio.to_thread(answer, asked)

        return aside

    def page(self, asked: Asked, rows: list[Any], key: str = "") -> Reply:
        """Answer with one page of a list, which stands under `key` if there is one."""
        name, usual, most = self.pages
        size = min(int(asked.query.get(name, usual)), most)
        number = int(asked.query.get("page", "1"))
        headers = {}
        if number * size < len(rows):
            query = {**asked.query, "page": number + 1, name: size}
            tail = "&".join(f"{each}={quote(str(value))}" for each, value in query.items())
            headers["link"] = f'<{self.url}{asked.path}?{tail}>; rel="next"'
        part = rows[(number - 1) * size : number * size]
        return self._told({key: part} if key else part, headers)

    def _told(self, body: Any, headers: dict[str, str] | None = None) -> Reply:
        reply = answers(body, headers=headers)
        if not self.tags:
            return reply
        tag = hashlib.sha256(reply.body).hexdigest()[:32]
        return replace(reply, headers={**reply.headers, "etag": f'W/"{tag}"'})

    def new_id(self) -> int:
        self._ids += 1
        return self._ids

    def time(self, instant: float | None = None) -> str:
        found = datetime.fromtimestamp(self.now() if instant is None else instant, UTC)
        return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
