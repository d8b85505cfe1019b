"""What the forges share: how a repository is reached over REST, and the common requests.

Must not know any forge's addresses or words.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from ci.errors import RefusedError
from ci.forge.json_fields import number, rows, text
from ci.forge.protocol import BranchRules, ForgeIssue, LeftQueue
from ci.http.client import HttpClient
from ci.interface import PullRequestState
from ci.issues import issue_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from ci.forge.protocol import ForgeIssues, ForgePull, NewPull
    from ci.http.circuit_breaker import CircuitBreakers
    from ci.http.client import RateBudget, Response
    from ci.http.shared_clients import SharedClients
    from ci.issues import IssueReference

_NUMBER = re.compile(r"[#!]?(\d{1,12})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How one repository on a forge is reached."""

    repo: str
    """owner/name, or more groups before the name."""
    api: str
    web_url: str
    """Where the pages are: https://github.com."""
    sign: Callable[[], Awaitable[Mapping[str, str]]]
    """Signs each request; no other part sees a token."""
    now: Callable[[], float]
    renew: Callable[[], bool] | None = None
    """Called when a token was refused; returns whether another one may be available."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    breakers: CircuitBreakers | None = None
    timeout: float = 20.0
    clients: SharedClients | None = None
    """Those of all repositories of this process."""
    account: str = ""

    @property
    def page(self) -> str:
        """The repository's own page."""
        return f"{self.web_url.rstrip('/')}/{self.repo}"

    @property
    def place(self) -> str:
        """The repository for people: `github.com/owner/name`."""
        return self.page.partition("://")[2]

    def client(self, advice: str) -> HttpClient:
        """Return a client, to be closed; `advice` says what to do about a bad token."""
        api = self.api.rstrip("/")

        def made() -> HttpClient:
            return HttpClient(
                api,
                sign=self.sign,
                now=self.now,
                advice=advice,
                breakers=self.breakers,
                timeout=self.timeout,
            )

        return made() if self.clients is None else self.clients.client(api, self.account, made)


class Client(Protocol):
    """The client that a forge uses."""

    @property
    def budget(self) -> RateBudget:
        """The remaining rate limit."""
        ...

    async def get(self, path: str) -> Response:
        """Send a conditional GET."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class RestForge:
    """One repository; subclasses add the requests that differ between forges."""

    mark = "#"
    queue = "merge queue"
    issues: ForgeIssues | None = None

    def __init__(
        self, connection: Connection, client: Client, *, at: str, pages: Sequence[str]
    ) -> None:
        """`at` is the repository's path in the API, `pages` are those of its pull requests."""
        self.place = connection.place
        self._client = client
        self._at = at
        self._repo = connection.repo
        self._web_url = connection.web_url
        self._kinds = tuple(pages)
        self._pages = tuple(f"{connection.page}/{each}/".lower() for each in pages)

    @property
    def budget(self) -> RateBudget:
        """The remaining rate limit."""
        return self._client.budget

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.aclose()

    async def default_branch(self) -> str:
        """Return the branch that pull requests go into by default."""
        return text((await self._client.get(self._at)).body, "default_branch") or "main"

    async def branch_rules(self, branch: str) -> BranchRules:
        """Return what must be so before something is merged into the branch."""
        del branch
        return BranchRules()

    def number_of(self, ref: str) -> int | None:
        """Read `3`, `#3`, `!3` or a url of a pull request of this repository."""
        ref = ref.strip()
        for page in self._pages:
            if ref.lower().startswith(page):
                ref = re.split(r"[/?#]", ref[len(page) :], maxsplit=1)[0]
                break
        plain = _NUMBER.fullmatch(ref)
        return int(plain[1]) if plain is not None else None

    def issue_of(self, ref: str) -> IssueReference | None:
        """Return which issue of this forge a reference names; None if it is at another host."""
        return issue_of(ref).on(self._web_url, self._repo)

    async def called(self) -> str:
        """Return the name that the forge has for the repository now."""
        return self._other_name((await self._client.get(self._at)).body) or self._repo

    def renamed_to(self, url: str) -> str:
        """Return what the repository is called in the url of a pull request, if otherwise."""
        path = unquote(urlsplit(url).path)
        found = next((path.partition(f"/{kind}/") for kind in self._kinds if kind in path), None)
        if found is None or f"{found[0]}/".lower().endswith(f"/{self._repo}/".lower()):
            return ""
        return "/".join(found[0].strip("/").split("/")[-1 - self._repo.count("/") :])

    async def pull(self, number: int) -> ForgePull | None:
        """Return one pull request with all details."""
        raise NotImplementedError

    async def find_pull(self, branch: str) -> ForgePull | None:
        """Return the newest open pull request of a branch of this repository, else its newest."""
        raise NotImplementedError

    async def create_pull(self, new: NewPull) -> ForgePull:
        """Open a pull request."""
        raise NotImplementedError

    async def update_pull(self, pull: ForgePull) -> bool:
        """Do nothing: not every forge merges the base into a branch."""
        del pull
        return False

    async def left_queue(self, pull: ForgePull) -> LeftQueue:
        """Return nothing: most forges tell nothing about it."""
        del pull
        return LeftQueue()

    async def comment(self, number: int, text: str) -> None:
        """Write a comment."""
        raise NotImplementedError

    async def reply(self, number: int, ref: str, text: str) -> None:
        """Write a comment: not every forge has threads."""
        del ref
        await self.comment(number, text)

    async def close_pull(self, number: int) -> None:
        """Close without merging; one that is closed or merged stays so."""
        try:
            await self._close(number)
        except RefusedError:
            seen = await self.pull(number)
            if seen is None or seen.state is PullRequestState.OPEN:
                raise

    async def _close(self, number: int) -> None:
        raise NotImplementedError

    def _other_name(self, repository: object) -> str:
        """Return the name in the answer about the repository, if it is another one."""
        name = text(repository, "full_name") or text(repository, "path_with_namespace")
        return name if name.lower() != self._repo.lower() else ""

    async def _there(self) -> None:
        # What we may not see is also "not found": only if the repository is found, it is gone.
        await self._client.get(self._at)


def newest(pulls: Iterable[ForgePull], branch: str) -> int | None:
    """Return the number of the newest open pull request of a branch, else of its newest."""
    return max(
        ((pull.state is PullRequestState.OPEN, pull.number) for pull in pulls
         if pull.branch == branch and pull.ours),
        default=(False, None),
    )[1]  # fmt: skip


def issue_of_row(body: object) -> ForgeIssue:
    """Return an issue as GitHub and those that took over its API show it."""
    return ForgeIssue(
        open=text(body, "state") == "open",
        labels=tuple(text(row, "name") for row in rows(body, "labels")),
        number=number(body, "number") or 0,
        title=text(body, "title"),
        body=text(body, "body"),
    )
