"""GitHub as a forge on a small server that a test lets answer as it likes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ci.forge.rest import Connection
from ci.github.forge import GitHubForge
from tests.ci.forge_server import answers
from tests.ci.github.github_answers import HEAD, pull
from tests.tools.github_api import fault_of
from tests.tools.github_graphql import answer_fault

if TYPE_CHECKING:
    from ci.forge.protocol import ForgePull
    from tests.ci.forge_server import Asked, ForgeServer, Reply

NOW = 1_800_000_000.0
REPO = "/repos/o/r"
COMMIT = f"{REPO}/commits/{HEAD}"


async def sign() -> dict[str, str]:
    return {"Authorization": "Bearer ghp_secret"}


class Served:
    """A forge and the server that plays GitHub for it."""

    def __init__(self, server: ForgeServer) -> None:
        self.server = server
        self.slept: list[float] = []
        self.now = NOW
        self.forge = self.at("")
        server.route("GET", REPO, answers({"full_name": "o/r", "default_branch": "trunk"}))

    def at(self, prefix: str) -> GitHubForge:
        return GitHubForge(
            Connection(
                repo="o/r",
                api=self.server.url + prefix,
                web_url="https://github.com",
                sign=sign,
                now=lambda: self.now,
                sleep=self.sleep,
            )
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def serve(self, method: str, path: str, reply: Reply | Any) -> None:
        self.server.route(method, f"{REPO}{path}", reply)

    def commit(self, runs: list[Any], statuses: list[Any] | None = None) -> None:
        """Answer so about the checks of the commit."""
        self.server.route("GET", f"{COMMIT}/check-runs", answers({"check_runs": runs}))
        joined = {"state": "pending", "statuses": statuses or []}
        self.server.route("GET", f"{COMMIT}/status", answers(joined))


def asked(served: Served, method: str, path: str) -> list[Asked]:
    return [each for each in served.server.requests if (each.method, each.path) == (method, path)]


async def seen(served: Served, **told: Any) -> ForgePull:
    """Serve a pull request and ask for it."""
    served.serve("GET", "/pulls/3", answers(pull(**told)))
    found = await served.forge.pull(3)
    assert found is not None
    return found


def check_requests(server: ForgeServer) -> None:
    """Hold all that a server was asked, and our GraphQL answers, against GitHub's descriptions."""
    faults = {_fault_of(each) for each in server.requests}
    faults |= {_misplayed(each) for each in server.requests if each.path.endswith("/graphql")}
    assert not faults - {""}, "\n".join(sorted(faults))


def _fault_of(asked: Asked) -> str:
    # GitHub Enterprise has the same API below a path of its own.
    path = re.sub("^/api(/v3)?(?=/)", "", unquote(asked.path))
    return fault_of(asked.method, path, asked.query, asked.json() if asked.body else None)


def _misplayed(asked: Asked) -> str:
    """Return in which fields our own answer to a GraphQL query is not of its form."""
    return answer_fault(asked.json()["query"], json.loads(asked.told or b"null"))
