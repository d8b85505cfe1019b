"""Gitea served over a real git repository, and a forge at work on it."""

from __future__ import annotations

from typing import Any

from ci.gitea import DESCRIPTION
from tests.ci.forge.forge_world import ServedWorld
from tests.ci.gitea.served_gitea import TOKEN, ServedGitea
from tests.ci.gitea.served_gitea_state import REPO


class GiteaWorld(ServedWorld[ServedGitea]):
    """Merges are found out about as Gitea does it."""

    makes = ServedGitea
    kind = DESCRIPTION
    repo = REPO
    api = "/api/v1"
    at = f"/api/v1/repos/{REPO}"
    pulls = f"{at}/pulls"
    token = TOKEN
    token_variable = "LOOPWRIGHT_GITEA_TOKEN"  # noqa: S105  # its name
    merge_request = ("POST", "/merge")
    draft = "WIP:"
    forks = (77, -1, 0)
    reading_scopes = {"read"}  # noqa: RUF012  # no test changes it
    write_scope = "write:repository"
    role_of_stranger = f"{at}/collaborators/stranger/permission"

    def shown(self, number: int) -> dict[str, Any]:
        return self.served.shown(self.served.pulls[number])

    def run(self, branch: str, sha: str, outcome: str) -> None:
        del branch
        self.served.run(sha, outcome)

    def say(self, number: int, who: str, text: str) -> dict[str, Any]:
        return self.served.comment(number, who, text)

    def demand_newest(self) -> None:
        self.served.demands_newest = True

    def let_write(self, who: str) -> None:
        self.served.people[who] = "write"

    async def release(self) -> None:
        self.served.release()

    async def review(
        self, number: int, body: str, *, path: str = "", line: int = 0, by: str = "dora"
    ) -> None:
        """Have somebody ask for changes; `path` and `line` say where."""
        lines = (((path, line), body),) if path else ()
        text = "" if path else body
        self.served.review(number, by, "REQUEST_CHANGES", text, lines=lines)

    async def remark(self, number: int, text: str, path: str, line: int) -> None:
        await self.review(number, text, path=path, line=line)

    async def approve(self, number: int) -> None:
        self.served.review(number, "dora", "APPROVED")

    def merge_there(self, number: int) -> str:
        pull = self.served.pulls[number]
        pull.merged = self.origin.merge(pull.base, pull.head, f"Merge {pull.branch}")
        pull.state, pull.ended = "closed", self.clock()
        return pull.merged
