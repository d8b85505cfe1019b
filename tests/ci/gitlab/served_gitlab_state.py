"""What a served GitLab knows: people, pipelines, merge requests and what was said about them.

Owns the rules by which those change. Answers nobody: that is `served_gitlab`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.ci.forge.served_forge import Pull, ServedForge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ci.forge_server import ForgeServer
    from tests.ci.served_git import Origin

REPO = "team/tools/loops"
LOG = (
    "\x1b[0KRunning with gitlab-runner 17.5.0\x1b[0;m\n"
    "section_start:1700000000:step_script\r\x1b[0K\x1b[36;1mExecuting step_script\x1b[0;m\n"
    "2 + 2 = 5\n\x1b[31mthe sum is wrong\x1b[0;m\n"
    "section_end:1700000009:step_script\r\x1b[0K\n"
    "\x1b[31;1mERROR: Job failed: exit code 1\x1b[0;m\n"
)
STATUS = {"green": "success", "red": "failed", "held": "running"}


@dataclass(kw_only=True)
class Merge(Pull):
    """A merge request."""

    labels: list[str]
    state: str = "opened"
    merged: dict[str, Any] = field(default_factory=dict)
    closed: float | None = None
    says: str = ""
    """A detailed_merge_status that it has whatever else holds."""
    auto: bool = False
    versions: list[dict[str, Any]] = field(default_factory=list)
    discussions: list[dict[str, Any]] = field(default_factory=list)
    approvals: dict[int, float] = field(default_factory=dict)
    reviewers: dict[int, str] = field(default_factory=dict)


class GitLabState(ServedForge[Merge]):
    """One project; what a test wants otherwise is an attribute here."""

    first_name = REPO
    slash = ""
    moves = 301

    def __init__(self, server: ForgeServer, origin: Origin, now: Callable[[], float]) -> None:
        super().__init__(server, origin, now)
        self.people = {1: ("agent", 40), 2: ("dora", 30), 3: ("stranger", 0), 4: ("guest", 10)}
        """Names and roles in the project by id."""
        self.merge_method = "merge"
        self.pipelines_must_pass = False
        self.settings: dict[str, Any] = {}
        """Of the project, beside those two."""
        self.pipelines: list[dict[str, Any]] = []
        self.jobs: list[dict[str, Any]] = []
        self.bridges: list[dict[str, Any]] = []
        """Jobs that start child pipelines."""
        self.status_checks: list[dict[str, Any]] | None = None
        """External ones of every merge request; None in an edition without them."""
        self.traces: dict[int, str] = {}

    def run(
        self, sha: str, ref: str, outcome: str, *, source: str = "push", name: str = "unit"
    ) -> dict[str, Any]:
        """Have a pipeline of one job that ends as said: green, red, held, or a status."""
        pipeline = self.pipeline(sha, ref, STATUS.get(outcome, outcome), source=source)
        self.job(pipeline, name, STATUS.get(outcome, outcome))
        return pipeline

    def pipeline(
        self, sha: str, ref: str, status: str, *, source: str = "push", **more: Any
    ) -> dict[str, Any]:
        key = self.new_id()
        row = {
            "id": key, "iid": key, "project_id": 5, "sha": sha, "ref": ref, "status": status,
            "source": source, "web_url": f"{self.html()}/-/pipelines/{key}", **more,
        }  # fmt: skip
        self.pipelines.append(row)
        return row

    def job(self, pipeline: dict[str, Any], name: str, status: str, **more: Any) -> dict[str, Any]:
        key = self.new_id()
        row = {
            "id": key, "name": name, "stage": "test", "status": status, "allow_failure": False,
            "pipeline": {"id": pipeline["id"]}, "web_url": f"{self.html()}/-/jobs/{key}", **more,
        }  # fmt: skip
        if status == "failed":
            row.setdefault("failure_reason", "script_failure")
            self.traces[key] = LOG
        self.jobs.append(row)
        return row

    def child(
        self, parent: dict[str, Any], name: str, status: str, *, depends: bool = True, **more: Any
    ) -> dict[str, Any]:
        """Have a job start a child pipeline of one job; `depends`: it ends as that ends."""
        made = self.pipeline(parent["sha"], parent["ref"], status, source="parent_pipeline")
        self.job(made, f"{name} inside", status)
        of_bridge = status if depends else "success"
        self.bridges.append({
            "id": self.new_id(), "name": name, "stage": "test", "status": of_bridge,
            "allow_failure": False, "pipeline": {"id": parent["id"]},
            "downstream_pipeline": {"id": made["id"], "project_id": 5, "status": status},
            "web_url": f"{self.html()}/-/jobs/{made['id']}", **more,
        })  # fmt: skip
        return made

    def status(self, sha: str, name: str, status: str, **more: Any) -> dict[str, Any]:
        """Say something from outside."""
        row = {
            "id": self.new_id(), "sha": sha, "ref": "main", "name": name, "status": status,
            "target_url": f"https://ci.example/{name}", "description": f"{name} says {status}",
            "allow_failure": False, **more,
        }  # fmt: skip
        self.statuses.append(row)
        return row

    def release(self) -> None:
        """Let everything that runs pass."""
        for row in (*self.jobs, *self.pipelines, *self.statuses):
            if row["status"] in {"running", "pending", "created"}:
                row["status"] = "success"

    def say(  # noqa: PLR0913  # each is one thing that a note may have
        self, number: int, who: int, body: str, *, thread: bool = False, system: bool = False,
        path: str = "", line: int = 0, to: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        """Write a note; in a thread of its own, or as an answer to one."""
        mr = self.pulls[number]
        note: dict[str, Any] = {
            "id": self.new_id(), "body": body, "author": self.user(who), "system": system,
            "created_at": self.time(), "resolvable": thread or bool(to), "resolved": False,
        }  # fmt: skip
        if path:
            place = {"new_path": path, "new_line": line, "head_sha": mr.head}
            note.update(type="DiffNote", position=place)
        for discussion in mr.discussions:
            if discussion["id"] == to:
                discussion["notes"].append(note)
                return discussion
        made = {"id": f"{note['id']:040x}", "individual_note": not thread, "notes": [note]}
        mr.discussions.append(made)
        return made

    def approve(self, number: int, who: int) -> None:
        self.pulls[number].approvals[who] = self.now()
        self.pulls[number].reviewers[who] = "approved"
        self.say(number, who, "approved this merge request", system=True)

    def refresh(self) -> None:
        """Notice what was pushed."""
        heads = self.origin.heads()
        for mr in self.pulls.values():
            head = heads.get(mr.branch)
            if mr.state == "opened" and head is not None and head != mr.head:
                mr.head, mr.updated = head, self.now()
                base = heads.get(mr.base, "")
                mr.versions.insert(
                    0,
                    {
                        "id": self.new_id(),
                        "head_commit_sha": head,
                        "base_commit_sha": self.origin.merge_base(base, head),
                        "start_commit_sha": base,
                        "created_at": self.time(mr.updated),
                    },
                )

    def detailed(self, mr: Merge, *, looks: bool) -> str:
        """Return its detailed_merge_status; it is found out by looking at it alone."""
        if mr.state == "opened" and mr.says:
            return mr.says
        base = self.origin.head(mr.base) or ""
        if mr.state == "opened" and mr.looked != (mr.head, base):
            mr.looked = (mr.head, base) if looks else mr.looked
            return "checking"
        states = {row["status"] for row in self.pipelines if row["sha"] == mr.head}
        lacking = self.pipelines_must_pass and states != {"success"}
        against = {
            "not_open": mr.state != "opened",
            "draft_status": mr.title.startswith("Draft:"),
            "conflict": bool(self.origin.conflicts(base, mr.head)),
            "need_rebase": self.merge_method == "ff" and self.origin.behind(base, mr.head),
            "ci_still_running": lacking and "running" in states,
            "ci_must_pass": lacking,
        }
        return next((word for word, holds in against.items() if holds), "mergeable")

    def user(self, who: int) -> dict[str, Any]:
        return {"id": who, "username": self.people[who][0]}

    def users(self, names: list[str]) -> list[dict[str, Any]]:
        return [self.user(key) for key, (name, _) in self.people.items() if name in names]

    def html(self) -> str:
        return f"{self.url}/{self.repo}"
