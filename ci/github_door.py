"""The way to GitHub's REST and GraphQL: the headers it wants, and a second try with a new token.

Owns GitHub's media type and version. Must not know what is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ci.errors import RefusedError, UnauthorizedError
from ci.forms import rows, text
from ci.http import Web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.breaker import Doors
    from ci.http import Answer, Budget

VERSION = {"x-github-api-version": "2022-11-28"}
ACCEPT = {"accept": "application/vnd.github+json", **VERSION}
LOG_BYTES = 1024 * 1024
"""Of a log's end that are looked at: later steps may print a lot after the failure."""

_ENTERPRISE = "/api/v3"
_CLOUD = "https://github.com"
_OWN_CLOUD = ".ghe.com"
_Result = TypeVar("_Result")


def api_of(web_url: str) -> str:
    """Return the API's address for the pages' address: of github.com, of one's own GitHub."""
    web_url = web_url.rstrip("/")
    if web_url == _CLOUD:
        return "https://api.github.com"
    if web_url.endswith(_OWN_CLOUD):
        return web_url.replace("://", "://api.", 1)
    return web_url + _ENTERPRISE


class GitHubDoor:
    """Asks GitHub as `ci.http.Web` does; a refused token is replaced once if there is another."""

    def __init__(  # noqa: PLR0913  # what `Web` needs, and two things of GitHub's
        self,
        api: str,
        *,
        sign: Callable[[], Awaitable[Mapping[str, str]]],
        now: Callable[[], float],
        renew: Callable[[], bool] | None,
        doors: Doors | None,
        timeout: float,
        place: str,
    ) -> None:
        api = api.rstrip("/")
        self._renew = renew
        self._graphql = api.removesuffix(_ENTERPRISE) + (
            "/api/graphql" if api.endswith(_ENTERPRISE) else "/graphql"
        )
        self._web = Web(
            api,
            sign=sign,
            now=now,
            doors=doors,
            timeout=timeout,
            advice=f"check the token for {place} with `loopwright doctor`",
        )

    @property
    def budget(self) -> Budget:
        """What GitHub still lets us ask."""
        return self._web.budget

    async def get(self, path: str, *, params: Mapping[str, str | int] | None = None) -> Answer:
        """Ask, conditionally."""
        return await self._tried(lambda: self._web.get(path, params=params, headers=ACCEPT))

    async def get_all(
        self, path: str, *, params: Mapping[str, str | int] | None = None, key: str | None = None
    ) -> list[Mapping[str, Any]]:
        """Ask for all pages of a list of objects."""
        found = await self._tried(
            lambda: self._web.get_all(path, params=params, headers=ACCEPT, key=key)
        )
        return [each for each in found if isinstance(each, dict)]

    async def send(self, method: str, path: str, *, json: Any = None) -> Answer:
        """Change something. A request with a refused token changed nothing and may be repeated."""
        return await self._tried(lambda: self._web.send(method, path, json=json, headers=ACCEPT))

    async def log(self, path: str) -> str:
        """Return the end of a log."""
        return await self._tried(lambda: self._web.tail(path, most=LOG_BYTES, headers=VERSION))

    async def graphql(self, query: str, **variables: str | int) -> Any:
        """Ask by GraphQL, which tells its refusals in an answer that is a success by HTTP."""
        answer = await self.send(
            "POST", self._graphql, json={"query": query, "variables": variables}
        )
        errors = rows(answer.body, "errors")
        if errors:
            raise RefusedError("; ".join(text(each, "message") for each in errors))
        return answer.body

    async def aclose(self) -> None:
        """Close connections."""
        await self._web.aclose()

    async def _tried(self, ask: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            return await ask()
        except UnauthorizedError:
            if self._renew is None or not self._renew():
                raise
        return await ask()
