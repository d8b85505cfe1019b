"""GitHub with a merge queue, over a real git repository: it tests what it merges as a group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from ci.github import DESCRIPTION
from tests.ci.forge import served_forge
from tests.ci.forge.forge_world import ServedWorld
from tests.ci.forge.served_forge import Refusal, ServedForge
from tests.ci.forge_server import Reply, answers, text
from tests.ci.github.github_answers import LOG, STEPS
from tests.tools.github_api import fault_of
from tests.tools.github_graphql import answer_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ci.forge_server import Asked, ForgeServer
    from tests.ci.served_git import Origin

REPO = "o/r"
R = f"/repos/{REPO}"
TOKEN = "token-of-agent"  # noqa: S105  # it opens nothing but this server


@dataclass(kw_only=True)
class Pull(served_forge.Pull):
    """A pull request, and what the queue did with it."""

    state: str = "open"
    base_sha: str = ""
    merged: str = ""
    group: str = ""
    """The commit on which it is tested, while it is in the queue."""
    removals: list[dict[str, Any]] = field(default_factory=list)


class QueueForge(ServedForge[Pull]):
    """One repository whose base takes commits from its merge queue only."""

    pages = ("per_page", 30, 100)
    first_name = REPO

    def __init__(self, server: ForgeServer, origin: Origin, now: Callable[[], float]) -> None:
        super().__init__(server, origin, now)
        self.entries: list[tuple[int, str]] = []
        """The number and the head of each entry."""
        self.runs: list[dict[str, Any]] = []
        self.checks: dict[str, list[dict[str, Any]]] = {}
        self.logs: dict[int, str] = {}

    def routes(self) -> list[tuple[str, str, Callable[[Asked], Any]]]:
        pull = f"{R}/pulls/{{number}}"
        nothing: Callable[[Asked], Any] = lambda _: []  # noqa: E731
        return [
            ("GET", "/user", lambda _: {"login": "agent"}),
            ("GET", R, lambda _: {"full_name": REPO, "default_branch": "main"}),
            ("GET", f"{R}/rules/branches/{{base}}", lambda _: [{"type": "merge_queue"}]),
            ("GET", f"{R}/git/ref/heads/{{base}}", self._ref),
            ("GET", f"{R}/pulls", self._list),
            ("POST", f"{R}/pulls", self._create),
            ("GET", pull, lambda asked: self.shown(self._pull(asked))),
            ("GET", f"{pull}/reviews", nothing),
            ("GET", f"{pull}/comments", nothing),
            ("GET", f"{R}/issues/{{number}}/comments", nothing),
            ("GET", f"{R}/commits/{{sha}}/check-runs", self._check_runs),
            ("GET", f"{R}/commits/{{sha}}/status", lambda _: {"statuses": []}),
            ("GET", f"{R}/actions/runs", lambda _: {"workflow_runs": self.runs}),
            ("GET", f"{R}/actions/jobs/{{job}}", lambda _: {"steps": STEPS}),
            ("GET", f"{R}/actions/jobs/{{job}}/logs", lambda _: text(LOG)),
            ("POST", "/graphql", self._graphql),
        ]

    def fault_of(self, asked: Asked) -> str:
        return fault_of(
            asked.method, unquote(asked.path), asked.query, asked.json() if asked.body else None
        )

    def sign_in(self, asked: Asked) -> None:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, "Bad credentials")

    def refresh(self) -> None:
        heads = self.origin.heads()
        for pull in self.pulls.values():
            if pull.state != "open":
                continue
            pull.base_sha, head = heads[pull.base], heads.get(pull.branch, pull.head)
            if head != pull.head:
                pull.head, pull.updated = head, self.now()
                self.check(head, "success")
                if pull.group:
                    self.remove(pull, "invalidated")

    # --- the queue ------------------------------------------------------------------------------

    def enter(self, number: int) -> None:
        pull = self.pulls[number]
        self.entries.append((number, pull.head))
        pull.group = self.origin.test_merge(pull.base, pull.head)
        branch = f"gh-readonly-queue/{pull.base}/pr-{number}-{pull.base_sha}"
        run = {"id": self.new_id(), "head_branch": branch, "head_sha": pull.group}
        self.runs.append(run)

    def ends(self, number: int, *, green: bool) -> None:
        """Have the test of the group end: the pull request is merged or thrown out."""
        pull = self.pulls[number]
        self.check(pull.group, "success" if green else "failure")
        if not green:
            self.remove(pull, "failed_checks")
            return
        pull.merged = self.origin.merge(pull.base, pull.head, f"Merge {pull.branch}")
        pull.state, pull.group, pull.updated = "closed", "", self.now()

    def group(self, number: int) -> str:
        """Return the commit on which it is tested, while it is in the queue."""
        return self.pulls[number].group

    def take_out(self, number: int) -> None:
        """Have a person take it out."""
        self.remove(self.pulls[number], "manual")

    def remove(self, pull: Pull, reason: str) -> None:
        pull.removals.append({"reason": reason})
        pull.group, pull.updated = "", self.now()

    def retarget(self, number: int, base: str) -> None:
        """Have a person choose another base, which takes it out of the queue of the old one."""
        pull = self.pulls[number]
        if pull.group:
            self.remove(pull, "invalidated")
        pull.base, pull.updated = base, self.now()

    def check(self, sha: str, conclusion: str) -> None:
        job = self.new_id()
        at = f"https://github.com/{REPO}/actions/runs/7/job/{job}"
        self.checks.setdefault(sha, []).append(
            {"id": job, "name": "ci", "status": "completed", "conclusion": conclusion,
             "html_url": at, "details_url": at, "app": {"slug": "github-actions"}}
        )  # fmt: skip

    # --- answers --------------------------------------------------------------------------------

    def _ref(self, asked: Asked) -> dict[str, Any]:
        return {"object": {"sha": self.origin.head(asked.names["base"])}}

    def _check_runs(self, asked: Asked) -> dict[str, Any]:
        return {"check_runs": self.checks.get(asked.names["sha"], [])}

    def _pull(self, asked: Asked) -> Pull:
        pull = self.pulls.get(int(asked.names["number"]))
        if pull is None:
            raise Refusal(404, "Not Found")
        return pull

    def _list(self, asked: Asked) -> list[dict[str, Any]]:
        state, head = asked.query.get("state", "open"), asked.query.get("head", "")
        return [
            self.shown(pull)
            for pull in self.pulls.values()
            if state in {"all", pull.state} and head in {"", f"o:{pull.branch}"}
        ]

    def _create(self, asked: Asked) -> Reply:
        body, number = asked.json(), len(self.pulls) + 1
        self.pulls[number] = Pull(
            number=number, branch=body["head"], base=body["base"], title=body["title"],
            body=body["body"], created=self.now(), updated=self.now(), author="agent",
        )  # fmt: skip
        self.refresh()
        return answers(self.shown(self.pulls[number]), status=201)

    def _graphql(self, asked: Asked) -> dict[str, Any]:
        told = {"data": self._queried(asked)}
        if fault := answer_fault(asked.json()["query"], told):
            self.faults.append(fault)
        return told

    def _queried(self, asked: Asked) -> dict[str, Any]:
        body = asked.json()
        query, variables = body["query"], body["variables"]
        if "enqueuePullRequest" in query:
            number = int(variables["pull"].removeprefix("PR_"))
            assert variables["sha"] == self.pulls[number].head
            self.enter(number)
            return {"enqueuePullRequest": {"mergeQueueEntry": {"id": "x"}}}
        pull = self.pulls[variables["number"]]
        entry = {"id": "x", "headCommit": {"oid": pull.group}} if pull.group else None
        told = {"mergeQueueEntry": entry, "timelineItems": {"nodes": pull.removals[-1:]}}
        asked_for = {name: value for name, value in told.items() if name in query}
        return {"repository": {"pullRequest": asked_for}}

    def shown(self, pull: Pull) -> dict[str, Any]:
        return {
            "number": pull.number, "node_id": f"PR_{pull.number}", "state": pull.state,
            "html_url": f"{self.url}/{REPO}/pull/{pull.number}", "title": pull.title,
            "body": pull.body, "draft": False, "merged": bool(pull.merged),
            "merged_at": self.time(pull.updated) if pull.merged else None,
            "merge_commit_sha": pull.merged or None, "mergeable": True,
            "mergeable_state": "clean",
            "head": {"ref": pull.branch, "sha": pull.head, "repo": {"full_name": REPO}},
            "base": {"ref": pull.base, "sha": pull.base_sha, "repo": {"full_name": REPO}},
            "created_at": self.time(pull.created), "updated_at": self.time(pull.updated),
        }  # fmt: skip


class QueueWorld(ServedWorld[QueueForge]):
    """A repository on that GitHub."""

    makes = QueueForge
    kind = DESCRIPTION
    repo = REPO
    api = ""
    at = R
    pulls = f"{R}/pulls"
    token: ClassVar[str] = TOKEN
    token_variable = "LOOPWRIGHT_GITHUB_TOKEN"  # noqa: S105  # its name

    def run(self, branch: str, sha: str, outcome: str) -> None:
        """Do nothing: each head passes, and what is red is red in the queue."""
