"""What a served Gitea knows: people, statuses, pull requests and what was said about them.

Owns the rules by which those change. Answers nobody: that is `served_gitea`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.ci.forge import served_forge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ci.forge_server import ForgeServer
    from tests.ci.served_git import Origin

REPO = "team/loops"
LOG = "2024-01-01T00:00:00.0000000Z go\n2 + 2 = 5\nthe sum is wrong\nexitcode '1': failure\n"
NEWEST = (1, 27)
OFFICIAL_SINCE = (1, 21)
"""Since when a review is marked as official wherever its author may write."""
STATUS = {"green": "success", "red": "failure", "held": "pending"}


@dataclass(kw_only=True)
class Pull(served_forge.Pull):
    """A pull request."""

    labels: list[int]
    state: str = "open"
    base_sha: str = ""
    merged: str = ""
    ended: float | None = None
    comments: list[dict[str, Any]] = field(default_factory=list)
    reviews: list[dict[str, Any]] = field(default_factory=list)


class GiteaState(served_forge.ServedForge[Pull]):
    """One repository; what a test wants otherwise is an attribute here."""

    first_name = REPO

    def __init__(self, server: ForgeServer, origin: Origin, now: Callable[[], float]) -> None:
        super().__init__(server, origin, now)
        self.version = NEWEST
        self.people = {"agent": "admin", "dora": "write", "stranger": "read"}
        self.labels: list[dict[str, Any]] = [{"id": 1, "name": "bug", "color": "ff0000"}]
        self.org_labels: list[dict[str, Any]] | None = []
        """Of the organisation; None where the token is not told of it."""
        self.runs: list[dict[str, Any]] = []
        self.jobs: list[dict[str, Any]] = []
        self.logs: dict[int, str] = {}

    # --- what tests and worlds do -----------------------------------------------------------------

    def run(self, sha: str, outcome: str, *, name: str = "unit") -> dict[str, Any]:
        """Have the server's own Actions run a job that ends as said: green, red or held."""
        run, job = self.new_id(), self.new_id()
        page = f"/{self.repo}/actions/runs/{run}/jobs/0"
        state = STATUS.get(outcome, outcome)
        steps = [
            {"name": "Check out", "number": 1, "conclusion": "success"},
            {"name": "Add up", "number": 2, "conclusion": state},
        ]
        self.runs.append({"id": run, "head_sha": sha, "html_url": f"{self.url}{page}"})
        self.jobs.append(
            {"id": job, "run_id": run, "name": name, "steps": steps, "html_url": self.url + page}
        )
        self.logs[job] = LOG
        return self.status(sha, f"test.yml / {name} (push)", state, target_url=page)

    def status(self, sha: str, context: str, state: str, **more: Any) -> dict[str, Any]:
        """Set a status; the older ones of its context stay in the list."""
        row = {
            "id": self.new_id(), "sha": sha, "status": state, "context": context,
            "description": f"says {state}", "target_url": f"https://ci.example/{context}", **more,
        }  # fmt: skip
        self.statuses.append(row)
        return row

    def release(self) -> None:
        """Let everything that is pending pass."""
        for row in tuple(self.statuses):
            newest = [each for each in self.statuses if each["context"] == row["context"]][-1]
            if row is newest and row["status"] == "pending":
                more = {"target_url": row["target_url"]}
                self.status(row["sha"], row["context"], "success", **more)

    def comment(self, number: int, who: str, body: str) -> dict[str, Any]:
        """Write under a pull request."""
        key = self.new_id()
        url = f"{self.html()}/pulls/{number}#issuecomment-{key}"
        said = {"id": key, "user": self.user(who), "body": body, "html_url": url}
        self.pulls[number].comments.append({**said, "created_at": self.time()})
        return self.pulls[number].comments[-1]

    def review(
        self, number: int, who: str, state: str, body: str = "", *, lines: tuple[Any, ...] = ()
    ) -> dict[str, Any]:
        """Review the head; `lines` are pairs of a path with a line, and a text."""
        pull, when = self.pulls[number], self.time()
        key = self.new_id()
        said = [
            {
                "id": self.new_id(), "body": text, "user": self.user(who), "path": path,
                "position": line, "original_position": 0, "commit_id": pull.head,
                "pull_request_review_id": key, "created_at": when, "resolver": None,
                "html_url": f"{self.html()}/pulls/{number}/files#{key}",
            }
            for (path, line), text in lines
        ]  # fmt: skip
        row = {
            "id": key, "user": self.user(who), "state": state, "body": body, "submitted_at": when,
            "commit_id": pull.head, "stale": False, "dismissed": False,
            # Older servers only mark reviews of a protected branch.
            "official": self.version >= OFFICIAL_SINCE and self.may_write(who),
            "comments_count": len(said), "comments": said,
            "html_url": f"{self.html()}/pulls/{number}#issuecomment-{key}",
        }  # fmt: skip
        pull.reviews.append(row)
        return row

    def refresh(self) -> None:
        """Notice what was pushed."""
        heads = self.origin.heads()
        for pull in self.pulls.values():
            head = heads.get(pull.branch)
            if pull.state != "open":
                # What is shown as its head goes on following the branch.
                pull.head = head or pull.head
                continue
            pull.base_sha = heads.get(pull.base, "")
            if head is not None and head != pull.head:
                pull.head, pull.updated = head, self.now()
                for review in pull.reviews:
                    review["stale"] = True

    def merges(self, pull: Pull, *, looks: bool = False) -> bool:
        """Tell whether it merges; that is found out by asking, and until then it does not."""
        known = pull.looked == (pull.head, pull.base_sha)
        if looks:
            pull.looked = (pull.head, pull.base_sha)
        return known and not self.draft(pull) and not self.conflicts(pull)

    def conflicts(self, pull: Pull) -> tuple[str, ...]:
        return self.origin.conflicts(pull.base_sha, pull.head)

    def draft(self, pull: Pull) -> bool:
        return pull.title.lower().startswith(("wip:", "[wip]"))

    def may_write(self, who: str) -> bool:
        return self.people.get(who) in {"write", "admin", "owner"}

    def user(self, who: str) -> dict[str, Any]:
        return {"id": sorted({*self.people, who}).index(who), "login": who}

    def html(self) -> str:
        return f"{self.url}/{self.repo}"
