"""The client of GitHub's REST and GraphQL APIs, and the account that it acts as.

Owns GitHub's media type and version, and one retry with a new token. Must not know what is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ci.errors import ForbiddenError, MissingError, RefusedError, UnauthorizedError
from ci.forge.json_fields import rows, text
from ci.github import ENTERPRISE_API

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.forge.rest import Connection
    from ci.http.client import RateBudget, Response

VERSION = {"x-github-api-version": "2022-11-28"}
ACCEPT = {"accept": "application/vnd.github+json", **VERSION}
LOG_BYTES = 1024 * 1024
"""Bytes of a log's end that are read: later steps may print a lot after the failure."""

_VIEWER = "query { viewer { login } }"
_BOT = "[bot]"
_WITHHELD = (ForbiddenError, MissingError, RefusedError)

_Result = TypeVar("_Result")


class GitHubClient:
    """An `HttpClient` for GitHub; a refused token is replaced once, if possible."""

    def __init__(self, connection: Connection) -> None:
        api = connection.api.rstrip("/")
        self._renew = connection.renew
        self._graphql = api.removesuffix(ENTERPRISE_API) + (
            "/api/graphql" if api.endswith(ENTERPRISE_API) else "/graphql"
        )
        advice = f"check the token for {connection.place} with `loopwright doctor`"
        self._http = connection.client(advice)

    @property
    def budget(self) -> RateBudget:
        """The remaining rate limit."""
        return self._http.budget

    async def get(self, path: str, *, params: Mapping[str, str | int] | None = None) -> Response:
        """Send a conditional GET."""
        return await self._tried(lambda: self._http.get(path, params=params, headers=ACCEPT))

    async def get_all(
        self,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        key: str | None = None,
        most: int = 1000,
    ) -> list[Mapping[str, Any]]:
        """Get all pages of a list of objects."""
        found = await self._tried(
            lambda: self._http.get_all(path, params=params, headers=ACCEPT, key=key, most=most)
        )
        return [each for each in found if isinstance(each, dict)]

    async def send(self, method: str, path: str, *, json: Any = None) -> Response:
        """Change something. A request with a refused token had no effect and is repeated."""
        return await self._tried(lambda: self._http.send(method, path, json=json, headers=ACCEPT))

    async def log(self, path: str) -> str:
        """Return the end of a log."""
        return await self._tried(lambda: self._http.tail(path, most=LOG_BYTES, headers=VERSION))

    async def graphql(self, query: str, **variables: str | int) -> Any:
        """Send a GraphQL query; its errors arrive with a successful HTTP status."""
        answer = await self.send(
            "POST", self._graphql, json={"query": query, "variables": variables}
        )
        errors = rows(answer.body, "errors")
        if errors:
            raise RefusedError("; ".join(text(each, "message") for each in errors))
        return answer.body

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def _tried(self, ask: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            return await ask()
        except UnauthorizedError:
            if self._renew is None or not self._renew():
                raise
        return await ask()


class Identity:
    """The user or the App's bot that the token belongs to."""

    def __init__(self, api: GitHubClient) -> None:
        self._api = api
        self._name: str | None = None

    async def name(self) -> str:
        """Return the login; empty if GitHub does not reveal it."""
        if self._name is None:
            self._name = await self._user() or await self._bot()
        return self._name

    async def _user(self) -> str:
        try:
            return text((await self._api.get("/user")).body, "login")
        except _WITHHELD:
            # An installation of a GitHub App is no user.
            return ""

    async def _bot(self) -> str:
        try:
            login = text(await self._api.graphql(_VIEWER), "data", "viewer", "login")
        except _WITHHELD:
            return ""
        # Without this suffix it would be the name of a person.
        return f"{login.removesuffix(_BOT)}{_BOT}" if login else ""
