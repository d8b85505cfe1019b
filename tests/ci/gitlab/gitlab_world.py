"""GitLab served over a real git repository, and a forge at work on it."""

from __future__ import annotations

from typing import Any

from ci.gitlab import DESCRIPTION
from tests.ci.forge.forge_world import ServedWorld
from tests.ci.gitlab.served_gitlab import TOKEN, ServedGitLab
from tests.ci.gitlab.served_gitlab_state import REPO

US, DORA, STRANGER, GUEST = 1, 2, 3, 4


class GitLabWorld(ServedWorld[ServedGitLab]):
    """Its checks are pipelines of one job."""

    makes = ServedGitLab
    kind = DESCRIPTION
    repo = REPO
    api = "/api/v4"
    at = "/api/v4/projects/team%2Ftools%2Floops"
    pulls = f"{at}/merge_requests"
    token = TOKEN
    token_variable = "LOOPWRIGHT_GITLAB_TOKEN"  # noqa: S105  # its name
    merge_request = ("PUT", "/merge")
    draft = "Draft:"
    forks = (77, None)
    reading_scopes = {"read_api"}  # noqa: RUF012  # no test changes it
    write_scope = "scope api"
    role_of_stranger = f"{at}/members/all/{STRANGER}"

    def shown(self, number: int) -> dict[str, Any]:
        return self.served.shown(self.served.pulls[number], single=True)

    def run(self, branch: str, sha: str, outcome: str) -> None:
        self.served.run(sha, branch, outcome)

    def say(self, number: int, who: str, text: str) -> dict[str, Any]:
        return self.served.say(number, self._id(who), text)

    def demand_newest(self) -> None:
        self.served.merge_method = "ff"

    def let_write(self, who: str) -> None:
        self.served.people[self._id(who)] = (who, 30)

    def _id(self, who: str) -> int:
        return next(key for key, (name, _) in self.served.people.items() if name == who)

    async def release(self) -> None:
        self.served.release()

    async def review(self, number: int, body: str, *, path: str = "", line: int = 0) -> None:
        """Have a developer ask for changes; `path` and `line` say where."""
        self.served.say(number, DORA, body, thread=True, path=path, line=line)
        self.served.pulls[number].reviewers[DORA] = "requested_changes"

    async def remark(self, number: int, text: str, path: str, line: int) -> None:
        await self.review(number, text, path=path, line=line)

    async def approve(self, number: int) -> None:
        for discussion in self.served.pulls[number].discussions:
            for note in discussion["notes"]:
                note["resolved"] = note["resolvable"]
        self.served.approve(number, DORA)

    def merge_there(self, number: int) -> str:
        merge = self.served.pulls[number]
        made = self.origin.merge(merge.base, merge.head, f"Merge {merge.branch}")
        merge.state, merge.updated = "merged", self.clock()
        merge.merged = {"merge_commit_sha": made}
        return made
