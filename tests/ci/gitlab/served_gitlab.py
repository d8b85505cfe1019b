"""A small GitLab that keeps what it is told, over real HTTP and a real git repository.

Written from the pages of docs.gitlab.com: "REST API" (authentication, pagination, status codes),
"Merge requests API", "Merge request approvals API", "Discussions API", "Notes API", "Pipelines
API", "Jobs API", "Commits API" (commit statuses), "Branches API", "Projects API", "Members API",
"Personal access tokens API" and "Rate limits".

A merge request is `checking` when it, its head or its target is new, and judged from the second
look on. What a test wants otherwise is a route of its own, or an attribute here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tests.ci.forge.served_forge import Issue, Refusal
from tests.ci.forge_server import Allowance, Reply, answers, text
from tests.ci.gitlab.gitlab_api import GITLAB
from tests.ci.gitlab.served_gitlab_state import GitLabState, Merge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ci.forge_server import Asked, ForgeServer
    from tests.ci.served_git import Origin

TOKEN = "glpat-of-agent"  # noqa: S105  # it opens nothing but this server
API = "/api/v4"
P = f"{API}/projects/{{id}}"
MR = f"{P}/merge_requests/{{iid}}"
ISSUE = f"{P}/issues/{{iid}}"


class ServedGitLab(GitLabState):
    """One project's state, and the answers of a `ForgeServer` about it."""

    pages = ("per_page", 20, 100)
    tags = True

    def __init__(self, server: ForgeServer, origin: Origin, now: Callable[[], float]) -> None:
        super().__init__(server, origin, now)
        self.tokens = {TOKEN: 1}
        self.scopes = {"api"}
        self.may_merge = True
        self.parents: dict[str, list[str]] = {}
        """Of commits that are not in the repository."""
        server.allowance = Allowance(2000, 60.0, now, gitlab=True)

    def routes(self) -> list[tuple[str, str, Callable[[Asked], Any]]]:
        commit = f"{P}/repository/commits/{{sha}}"
        return [
            ("GET", f"{API}/user", lambda _: {**self.user(self._me), "is_admin": False}),
            (
                "GET",
                f"{API}/personal_access_tokens/self",
                lambda _: {"scopes": sorted(self.scopes)},
            ),
            ("GET", f"{API}/users", self._users),
            ("GET", P, self._project),
            ("GET", f"{P}/members/all/{{user}}", self._member),
            ("GET", f"{P}/repository/branches/{{branch}}", self._branch),
            ("GET", commit, self._commit),
            ("GET", f"{commit}/statuses", self._statuses),
            ("GET", f"{commit}/merge_requests", self._of_commit),
            ("GET", f"{P}/pipelines", self._list_pipelines),
            ("GET", f"{P}/pipelines/{{pipeline}}", self._pipeline),
            ("GET", f"{P}/pipelines/{{pipeline}}/jobs", self._list_jobs),
            ("GET", f"{P}/pipelines/{{pipeline}}/bridges", self._bridges),
            ("POST", f"{P}/pipelines/{{pipeline}}/retry", self._pipeline),
            ("GET", f"{MR}/status_checks", self._status_checks),
            ("POST", f"{MR}/status_checks/{{check}}/retry", self._recheck),
            ("GET", f"{P}/jobs/{{job}}", self._job),
            ("GET", f"{P}/jobs/{{job}}/trace", self._trace),
            ("POST", f"{P}/jobs/{{job}}/retry", self._retry),
            ("GET", f"{P}/merge_requests", self._list),
            ("POST", f"{P}/merge_requests", self._create),
            ("GET", MR, lambda asked: self.shown(self._merge(asked), single=True)),
            ("PUT", MR, self._change),
            ("PUT", f"{MR}/merge", self._accept),
            ("POST", f"{MR}/notes", self._note),
            ("GET", f"{P}/issues", self._issues),
            ("GET", ISSUE, lambda asked: self._issue_form(self.issue_at(asked, "iid"))),
            ("PUT", ISSUE, self._change_issue),
            ("GET", f"{ISSUE}/notes", lambda asked: self.issue_at(asked, "iid").comments),
            ("POST", f"{ISSUE}/notes", self._say_on_issue),
            ("PUT", f"{ISSUE}/notes/{{note}}", self._edit_note),
            ("GET", f"{MR}/discussions", lambda asked: self._merge(asked).discussions),
            ("GET", f"{MR}/pipelines", lambda asked: self.pipelines_of(self._merge(asked))[::-1]),
            ("POST", f"{MR}/discussions/{{discussion}}/notes", self._reply),
            ("GET", f"{MR}/versions", lambda asked: self._merge(asked).versions),
            ("GET", f"{MR}/approvals", self._approvals),
            ("GET", f"{MR}/reviewers", self._reviewers),
        ]

    def fault_of(self, asked: Asked) -> str:
        path = asked.path.removeprefix(API)
        return GITLAB.fault_of(
            asked.method, path, asked.query, asked.json() if asked.body else None
        )

    def sign_in(self, asked: Asked) -> None:
        bearer = asked.headers.get("authorization", "").removeprefix("Bearer ")
        token = asked.headers.get("private-token") or asked.headers.get("job-token") or bearer
        if token not in self.tokens:
            raise Refusal(401, "401 Unauthorized")
        self._me = self.tokens[token]
        if "id" in asked.names and unquote(asked.names["id"]) not in {self.repo, "5"}:
            raise Refusal(404, "404 Project Not Found")
        if asked.method != "GET" and "api" not in self.scopes:
            raise Refusal(403, "insufficient_scope")

    def _project(self, _: Asked) -> dict[str, Any]:
        level = self.people[self._me][1]
        return {
            "id": 5,
            "path_with_namespace": self.repo,
            "default_branch": "main",
            "merge_method": self.merge_method,
            "only_allow_merge_if_pipeline_succeeds": self.pipelines_must_pass,
            **self.settings,
            "permissions": {"project_access": {"access_level": level}, "group_access": None},
        }

    def _users(self, asked: Asked) -> list[dict[str, Any]]:
        wanted = asked.query["username"]
        return [{"id": key, "username": name} for key, (name, _) in self.people.items()
                if name == wanted]  # fmt: skip

    def _member(self, asked: Asked) -> dict[str, Any]:
        name, level = self.people.get(int(asked.names["user"]), ("", 0))
        if not level:
            raise Refusal(404, "404 Not found")
        return {"id": int(asked.names["user"]), "username": name, "access_level": level}

    def _branch(self, asked: Asked) -> dict[str, Any]:
        name = unquote(asked.names["branch"])
        head = self.origin.head(name)
        if head is None:
            raise Refusal(404, "404 Branch Not Found")
        return {"name": name, "commit": {"id": head}}

    def _commit(self, asked: Asked) -> dict[str, Any]:
        sha = self._known(asked)
        return {"id": sha, "parent_ids": self.parents.get(sha) or self.origin.parents(sha)}

    def _statuses(self, asked: Asked) -> list[dict[str, Any]]:
        sha = self._known(asked)
        of = {row["id"] for row in self.pipelines if row["sha"] == sha}
        jobs = [
            {**row, "pipeline": None, "pipeline_id": row["pipeline"]["id"], "sha": sha}
            for row in self.jobs
            if row["pipeline"]["id"] in of and not row.get("retried")
        ]
        return [*jobs, *(row for row in self.statuses if row["sha"] == sha)]

    def _of_commit(self, asked: Asked) -> list[dict[str, Any]]:
        sha = self._known(asked)
        return [self.shown(mr) for mr in self.pulls.values() if mr.head == sha]

    def _known(self, asked: Asked) -> str:
        sha = asked.names["sha"]
        if sha not in self.parents and not self.origin.known(sha):
            raise Refusal(404, "404 Commit Not Found")
        return sha

    def _list_pipelines(self, asked: Asked) -> list[dict[str, Any]]:
        sha, ref = asked.query.get("sha"), asked.query.get("ref")
        return [
            row
            for row in reversed(self.pipelines)
            if sha in {None, row["sha"]}
            and ref in {None, row["ref"]}
            and row["source"] != "parent_pipeline"
        ]

    def _pipeline(self, asked: Asked) -> dict[str, Any]:
        return self._row(self.pipelines, asked.names["pipeline"])

    def _list_jobs(self, asked: Asked) -> list[dict[str, Any]]:
        key = self._pipeline(asked)["id"]
        found = [row for row in self.jobs if row["pipeline"]["id"] == key]
        return [row for row in reversed(found) if not row.get("retried")]

    def _bridges(self, asked: Asked) -> list[dict[str, Any]]:
        key = self._pipeline(asked)["id"]
        return [row for row in self.bridges if row["pipeline"]["id"] == key]

    def _status_checks(self, asked: Asked) -> list[dict[str, Any]]:
        self._merge(asked)
        if self.status_checks is None:
            raise Refusal(404, "404 Not Found")
        return self.status_checks

    def _recheck(self, asked: Asked) -> Reply:
        row = self._row(self.status_checks or [], asked.names["check"])
        if row["status"] != "failed":
            raise Refusal(422, "External status check must be failed")
        row["status"] = "pending"
        return answers({"message": "202 Accepted"}, status=202)

    def _job(self, asked: Asked) -> dict[str, Any]:
        return self._row(self.jobs, asked.names["job"])

    def _trace(self, asked: Asked) -> Reply:
        return text(self.traces.get(self._job(asked)["id"], ""))

    def _retry(self, asked: Asked) -> Reply:
        job = self._job(asked)
        if job["status"] not in {"failed", "canceled", "success"} or job.get("retried"):
            raise Refusal(403, "403 Forbidden - Job is not retryable")
        job["retried"] = True
        pipeline = self._row(self.pipelines, str(job["pipeline"]["id"]))
        pipeline["status"] = "running"
        return answers(self.job(pipeline, job["name"], "pending"), status=201)

    def _row(self, rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
        found = [row for row in rows if str(row["id"]) == key]
        if not found:
            raise Refusal(404, "404 Not found")
        return found[0]

    def _merge(self, asked: Asked) -> Merge:
        mr = self.pulls.get(int(asked.names["iid"]))
        if mr is None:
            raise Refusal(404, "404 Not found")
        return mr

    def _list(self, asked: Asked) -> list[dict[str, Any]]:
        state, branch = asked.query.get("state", "all"), asked.query.get("source_branch")
        return [
            self.shown(mr)
            for mr in reversed(self.pulls.values())
            if state in {"all", mr.state} and branch in {None, mr.branch}
        ]

    def _create(self, asked: Asked) -> Reply:
        body = asked.json()
        branch, base = body["source_branch"], body["target_branch"]
        if self.origin.head(branch) is None or self.origin.head(base) is None:
            raise Refusal(400, "source_branch or target_branch does not exist")
        for mr in self.pulls.values():
            if (mr.branch, mr.base, mr.state) == (branch, base, "opened"):
                told = f"Another open merge request already exists for this branch: !{mr.number}"
                raise Refusal(409, told)
        labels = [each for each in body.get("labels", "").split(",") if each]
        iid, now = len(self.pulls) + 1, self.now()
        self.pulls[iid] = Merge(
            number=iid, branch=branch, base=base, title=body["title"], labels=labels,
            body=body.get("description") or "", created=now, author=self._me, updated=now,
        )  # fmt: skip
        self.refresh()
        return answers(self.shown(self.pulls[iid], single=True), status=201)

    def _change(self, asked: Asked) -> dict[str, Any]:
        mr, body = self._merge(asked), asked.json()
        mr.title, mr.body = body.get("title", mr.title), body.get("description", mr.body)
        # Such a list takes the place of the one before, and an empty one takes everybody off.
        for key, people in (("reviewer_ids", mr.asked), ("assignee_ids", mr.assignees)):
            if key in body:
                people[:] = [self.people[each][0] for each in body[key]]
        if body.get("state_event") == "close" and mr.state == "opened":
            mr.state, mr.closed = "closed", self.now()
            mr.updated = mr.closed
        return self.shown(mr, single=True)

    def _accept(self, asked: Asked) -> dict[str, Any]:
        mr, body = self._merge(asked), asked.json()
        if not self.may_merge:
            raise Refusal(401, "401 Unauthorized")
        if body.get("sha") not in {None, mr.head}:
            raise Refusal(409, f"SHA does not match HEAD of source branch: {mr.head}")
        word = self.detailed(mr, looks=False)
        if word == "conflict":
            raise Refusal(422, "Branch cannot be merged")
        if word != "mergeable":
            raise Refusal(405, "405 Method Not Allowed")
        method = "squash" if body.get("squash") else self.merge_method
        message = body.get("merge_commit_message") or body.get("squash_commit_message") or mr.title
        made = self.origin.merge(mr.base, mr.head, message, method=method)
        named = "squash_commit_sha" if method == "squash" else "merge_commit_sha"
        mr.merged = {} if made == mr.head else {named: made}
        mr.state, mr.updated = "merged", self.now()
        return self.shown(mr, single=True)

    def _note(self, asked: Asked) -> Reply:
        number = self._merge(asked).number
        note = self.say(number, self._me, asked.json()["body"])["notes"][0]
        return answers(note, status=201)

    def _reply(self, asked: Asked) -> Reply:
        mr, to = self._merge(asked), asked.names["discussion"]
        found = [each for each in mr.discussions if each["id"] == to]
        if not found:
            raise Refusal(404, "404 Discussion Not Found")
        found[0]["individual_note"] = False
        self.say(mr.number, self._me, asked.json()["body"], to=to)
        return answers(found[0]["notes"][-1], status=201)

    def _issue_form(self, issue: Issue) -> dict[str, Any]:
        iid = next(iid for iid, each in self.issues.items() if each is issue)
        state = "opened" if issue.open else "closed"
        told = {"iid": iid, "title": issue.title, "description": issue.body, "state": state}
        return {**told, "labels": issue.labels}

    def _issues(self, asked: Asked) -> list[dict[str, Any]]:
        return [self._issue_form(each) for _, each in self.issues_for(asked.query, "search")]

    def _change_issue(self, asked: Asked) -> dict[str, Any]:
        issue, body = self.issue_at(asked, "iid"), asked.json()
        if body.get("state_event") == "close":
            issue.open = False
        for name in filter(None, body.get("add_labels", "").split(",")):
            scope, scoped, _ = name.rpartition("::")
            issue.labels = [
                x for x in issue.labels if not scoped or x.rpartition("::")[0] != scope
            ] + [name]
        gone = body.get("remove_labels", "").split(",")
        issue.labels = [name for name in issue.labels if name not in gone]
        return self._issue_form(issue)

    def _say_on_issue(self, asked: Asked) -> Reply:
        note = {"id": self.new_id(), "body": asked.json()["body"], "author": self.user(self._me)}
        self.issue_at(asked, "iid").comments.append(note)
        return answers(note, status=201)

    def _edit_note(self, asked: Asked) -> dict[str, Any]:
        for note in self.issue_at(asked, "iid").comments:
            if str(note["id"]) == asked.names["note"]:
                note["body"] = asked.json()["body"]
                return note
        raise Refusal(404, "404 Not found")

    def _approvals(self, asked: Asked) -> dict[str, Any]:
        return {"approved_by": [{"user": self.user(who)} for who in self._merge(asked).approvals]}

    def _reviewers(self, asked: Asked) -> list[dict[str, Any]]:
        given = self._merge(asked).reviewers.items()
        return [{"user": self.user(who), "state": state} for who, state in given]

    def shown(self, mr: Merge, *, single: bool = False) -> dict[str, Any]:
        word = self.detailed(mr, looks=single)
        merges = {"conflict": "cannot_be_merged", "checking": "checking"}
        shown = {
            "id": 1000 + mr.number, "iid": mr.number, "project_id": 5, "title": mr.title,
            "description": mr.body, "state": mr.state, "source_branch": mr.branch,
            "target_branch": mr.base, "source_project_id": mr.head_repo,
            "target_project_id": 5, "sha": mr.head, "author": self.user(mr.author),
            "assignees": self.users(mr.assignees), "reviewers": self.users(mr.asked),
            "labels": mr.labels, "draft": mr.title.startswith("Draft:"),
            "detailed_merge_status": word, "has_conflicts": word == "conflict",
            "merge_status": merges.get(word, "can_be_merged"),
            "merge_when_pipeline_succeeds": mr.auto, "merge_commit_sha": None,
            "squash_commit_sha": None, **mr.merged, "created_at": self.time(mr.created),
            "updated_at": self.time(mr.updated),
            "merged_at": self.time(mr.updated) if mr.state == "merged" else None,
            "closed_at": self.time(mr.closed) if mr.closed else None,
            "web_url": f"{self.html()}/-/merge_requests/{mr.number}",
        }  # fmt: skip
        if single:
            base = mr.versions[0] if mr.versions else {}
            shown["diff_refs"] = {
                "base_sha": base.get("base_commit_sha"),
                "head_sha": mr.head,
                "start_sha": base.get("start_commit_sha"),
            }
            ours = self.pipelines_of(mr)
            shown["head_pipeline"] = ours[-1] if ours else None
        return shown

    def pipelines_of(self, mr: Merge) -> list[dict[str, Any]]:
        """Return those of its branch at its head, and all that ran for it, the oldest first."""
        ref = f"refs/merge-requests/{mr.number}"
        return [
            row
            for row in self.pipelines
            if row["ref"].startswith(f"{ref}/") or (row["ref"], row["sha"]) == (mr.branch, mr.head)
        ]
