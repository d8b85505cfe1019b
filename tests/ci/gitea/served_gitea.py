"""A small Gitea that keeps what it is told, over real HTTP and a real git repository.

Written from the pages of docs.gitea.com: "API Usage" (authentication, pagination), the API
reference's groups "repository" (statuses, pulls, reviews, branches, labels, actions), "issue"
(comments) and "user", "Webhooks", and from Forgejo's "API usage". It sends no ETag and no rate
headers, as they do.

A pull request does not merge while the server has not looked at its present head and base, which
begins when somebody asks; a merge in that time is 405 "Please try again later".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tests.ci.forge.served_forge import Issue, Refusal
from tests.ci.forge_server import Reply, answers, text
from tests.ci.gitea.gitea_api import GITEA
from tests.ci.gitea.served_gitea_state import GiteaState, Pull

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.ci.forge_server import Asked, ForgeServer
    from tests.ci.served_git import Origin

TOKEN = "token-of-agent"  # noqa: S105  # it opens nothing but this server
API = "/api/v1"
R = f"{API}/repos/{{owner}}/{{name}}"
PULL = f"{R}/pulls/{{number}}"
ISSUE = f"{R}/issues/{{number}}"
OK = 200
ASSIGNEES_SINCE = (1, 15)
PERMISSION_SINCE = (1, 17)
COMPARE_SINCE = (1, 22)


async def _at_once() -> None:
    """Let nothing come in between."""


class ServedGitea(GiteaState):
    """One repository's state, and the answers of a `ForgeServer` about it."""

    pages = ("limit", 30, 50)

    def __init__(self, server: ForgeServer, origin: Origin, now: Callable[[], float]) -> None:
        super().__init__(server, origin, now)
        self.tokens = {TOKEN: "agent"}
        self.scopes = {"read", "write"}
        self.styles = {"merge", "squash", "rebase"}
        self.reruns_jobs = True
        """As since 1.26."""
        self.protection: dict[str, dict[str, Any]] = {}
        """By branch, as an answer about it tells its protection."""
        self.refuses_merges = ""
        """What a merge is refused with (405) by a rule of the branch."""
        self.demands_newest = False
        """A merge is refused while the branch lacks commits of its base."""
        self.while_creating: Callable[[], Awaitable[object]] = _at_once
        """What happens between the look for an open pull request and the creation of another."""
        self._looks_first = self._guarded(self._refuse_second)
        self._creates = self._guarded(self._create)
        server.route("POST", f"{R}/pulls", self._create_unserialised)

    def routes(self) -> list[tuple[str, str, Callable[[Asked], Any]]]:
        return [
            ("GET", f"{API}/user", lambda _: self.user(self._me)),
            ("GET", R, self._repository),
            ("GET", f"{R}/branches/{{branch}}", self._branch),
            ("GET", f"{R}/branch_protections/{{rule}}", self._protection),
            ("GET", f"{R}/compare/{{commits}}", self._compare),
            ("GET", f"{R}/commits", self._list_commits),
            ("GET", f"{R}/commits/{{sha}}/statuses", self._list_statuses),
            ("GET", f"{R}/collaborators/{{user}}", self._collaborator),
            ("GET", f"{R}/collaborators/{{user}}/permission", self._permission),
            ("GET", f"{R}/assignees", self._assignees),
            ("GET", f"{R}/labels", lambda _: self.labels),
            ("GET", f"{API}/orgs/{{org}}/labels", self._labels_of_organisation),
            ("POST", f"{R}/labels", self._label),
            ("GET", f"{R}/actions/runs", self._list_runs),
            ("GET", f"{R}/actions/runs/{{run}}/jobs", self._list_jobs),
            ("GET", f"{R}/actions/jobs/{{job}}/logs", self._log),
            ("POST", f"{R}/actions/runs/{{run}}/rerun-failed-jobs", self._rerun),
            ("GET", f"{R}/pulls", self._list),
            ("GET", PULL, lambda asked: self.shown(self._pull(asked), looks=True)),
            ("PATCH", PULL, self._change),
            ("POST", f"{PULL}/merge", self._merge),
            ("POST", f"{PULL}/update", self._update),
            ("POST", f"{PULL}/requested_reviewers", self._ask_for_review),
            ("GET", f"{PULL}/reviews", lambda asked: self._pull(asked).reviews),
            ("GET", f"{PULL}/reviews/{{review}}/comments", self._lines),
            ("GET", f"{R}/issues", self._issues),
            ("GET", ISSUE, lambda asked: self._issue_form(self.issue_at(asked, "number"))),
            ("PATCH", ISSUE, self._close_issue),
            ("GET", f"{ISSUE}/comments", lambda asked: answers(self._comments(asked))),
            ("POST", f"{ISSUE}/comments", self._comment),
            ("PATCH", f"{R}/issues/comments/{{id}}", self._edit_comment),
            ("POST", f"{ISSUE}/labels", self._put_labels),
            ("DELETE", f"{ISSUE}/labels/{{id}}", self._take_label),
        ]

    def fault_of(self, asked: Asked) -> str:
        path = asked.path.removeprefix(API)
        return GITEA.fault_of(asked.method, path, asked.query, asked.json() if asked.body else None)

    def sign_in(self, asked: Asked) -> None:
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if scheme not in {"token", "Bearer"} or token not in self.tokens:
            raise Refusal(401, "user does not exist [uid: 0, name: ]")
        self._me = self.tokens[token]
        if "name" in asked.names and f"{asked.names['owner']}/{asked.names['name']}" != self.repo:
            raise Refusal(404, "The target couldn't be found.")
        if asked.method != "GET" and "write" not in self.scopes:
            raise Refusal(
                403,
                "token does not have at least one of required scope(s): [write:repository]",
            )

    def _repository(self, _: Asked) -> dict[str, Any]:
        role = self.people[self._me]
        may = {"admin": role == "admin", "push": role in {"admin", "write"}, "pull": True}
        return {"id": 5, "full_name": self.repo, "default_branch": "main", "permissions": may}

    def _branch(self, asked: Asked) -> dict[str, Any]:
        name = unquote(asked.names["branch"])
        head = self.origin.head(name)
        if head is None:
            raise Refusal(404, f"branch does not exist [name: {name}]")
        told = {"name": name, "commit": {"id": head}, **self.protection.get(name, {})}
        # The rule, which may be a pattern, is named to administrators only.
        rule = "m*" if self.demands_newest and self.people[self._me] == "admin" else ""
        return {**told, "effective_branch_protection_name": rule}

    def _protection(self, asked: Asked) -> dict[str, Any]:
        if self.people[self._me] != "admin":
            raise Refusal(403, "user should be an owner or a collaborator with admin write")
        if unquote(asked.names["rule"]) != "m*":
            raise Refusal(404, "The target couldn't be found.")
        return {"rule_name": "m*", "block_on_outdated_branch": self.demands_newest}

    def _compare(self, asked: Asked) -> dict[str, Any]:
        if self.version < COMPARE_SINCE:
            raise Refusal(404, "")
        left, _, right = unquote(asked.names["commits"]).partition("...")
        return {"total_commits": self.origin.count(left, right)}

    def _list_commits(self, asked: Asked) -> list[dict[str, Any]]:
        head = self.origin.head(asked.query["sha"])
        if head is None:
            raise Refusal(404, "object does not exist")
        return [{"sha": sha} for sha in self.origin.log(head)]

    def _list_statuses(self, asked: Asked) -> list[dict[str, Any]]:
        sha = asked.names["sha"]
        if not self.origin.known(sha):
            raise Refusal(404, f"object does not exist [id: {sha}, rel_path: ]")
        return [row for row in reversed(self.statuses) if row["sha"] == sha]

    def _collaborator(self, asked: Asked) -> Reply:
        # Also for those who may only read.
        if unquote(asked.names["user"]) not in self.people:
            raise Refusal(404, "")
        return Reply(204)

    def _assignees(self, _: Asked) -> Reply:
        if self.version < ASSIGNEES_SINCE:
            raise Refusal(404, "")
        # Not in pages.
        return answers([self.user(who) for who in self.people if self.may_write(who)])

    def _permission(self, asked: Asked) -> dict[str, Any]:
        if self.version < PERMISSION_SINCE:
            raise Refusal(404, "")
        who = unquote(asked.names["user"])
        if self.people[self._me] != "admin" and self._me != who:
            told = (
                "Only admins can query all permissions, repo admins can query all repo permissions"
            )
            raise Refusal(403, told)
        if who not in self.people:
            raise Refusal(404, "user does not exist")
        return {"permission": self.people[who], "user": self.user(who)}

    def _labels_of_organisation(self, _: Asked) -> list[dict[str, Any]]:
        if self.org_labels is None:
            raise Refusal(403, "token does not have at least one of required scope(s)")
        return self.org_labels

    def _label(self, asked: Asked) -> Reply:
        body = asked.json()
        self.labels.append({"id": self.new_id(), "name": body["name"], "color": body["color"]})
        return answers(self.labels[-1], status=201)

    def _list_runs(self, asked: Asked) -> Reply:
        sha = asked.query.get("head_sha")
        rows = [row for row in self.runs if sha in {None, row["head_sha"]}]
        return self.page(asked, rows, "workflow_runs")

    def _list_jobs(self, asked: Asked) -> Reply:
        rows = [row for row in self.jobs if str(row["run_id"]) == asked.names["run"]]
        return self.page(asked, rows, "jobs")

    def _log(self, asked: Asked) -> Reply:
        log = self.logs.get(int(asked.names["job"]))
        if log is None:
            raise Refusal(404, "logs have been cleaned up")
        return text(log)

    def _rerun(self, asked: Asked) -> Reply:
        if not self.reruns_jobs:
            raise Refusal(404, "404 page not found")
        (run,) = [row for row in self.runs if str(row["id"]) == asked.names["run"]]
        (job,) = [row for row in self.jobs if row["run_id"] == run["id"]]
        context = f"test.yml / {job['name']} (push)"
        page = job["html_url"].removeprefix(self.url)
        self.status(run["head_sha"], context, "pending", target_url=page)
        return Reply(201)

    def _pull(self, asked: Asked) -> Pull:
        pull = self.pulls.get(int(asked.names["number"]))
        if pull is None:
            raise Refusal(404, "pull request does not exist")
        return pull

    def _list(self, asked: Asked) -> list[dict[str, Any]]:
        state = asked.query.get("state", "open")
        found = [pull for pull in self.pulls.values() if state in {"all", pull.state}]
        return [self.shown(pull) for pull in sorted(found, key=lambda each: -each.updated)]

    async def _create_unserialised(self, asked: Asked) -> Reply:
        """Open one as Gitea does, which keeps nobody away between its look and the creation."""
        reply: Reply = await self._looks_first(asked)
        if reply.status == OK:
            await self.while_creating()
            reply = await self._creates(asked)
        return reply

    def _refuse_second(self, asked: Asked) -> Reply:
        body = asked.json()
        branch, base = body["head"], body["base"]
        if self.origin.head(branch) is None or self.origin.head(base) is None:
            raise Refusal(404, "The target couldn't be found.")
        for pull in self.pulls.values():
            if (pull.branch, pull.base, pull.state) == (branch, base, "open"):
                told = "pull request already exists for these targets [id: 1, issue_id: 1, ...]"
                raise Refusal(409, told)
        return Reply(OK)

    def _create(self, asked: Asked) -> Reply:
        body = asked.json()
        branch, base = body["head"], body["base"]
        number, now = len(self.pulls) + 1, self.now()
        self.pulls[number] = Pull(
            number=number, branch=branch, base=base, title=body["title"], body=body["body"],
            labels=body.get("labels") or [], created=now, author=self._me, updated=now,
        )  # fmt: skip
        self.refresh()
        return answers(self.shown(self.pulls[number], looks=True), status=201)

    def _change(self, asked: Asked) -> Reply:
        pull, body = self._pull(asked), asked.json()
        pull.title, pull.body = body.get("title", pull.title), body.get("body", pull.body)
        if unknown := [each for each in body.get("assignees", ()) if each not in self.people]:
            raise Refusal(422, f"Assignee does not exist: [name: {unknown[0]}]")
        pull.assignees = body.get("assignees", pull.assignees)
        if body.get("state") == "closed":
            if pull.merged:
                raise Refusal(
                    412, "cannot change state of this pull request, it was already merged"
                )
            if pull.state == "open":
                pull.state, pull.ended = "closed", self.now()
        return answers(self.shown(pull), status=201)

    def _merge(self, asked: Asked) -> Reply:
        pull, body = self._pull(asked), asked.json()
        if pull.state != "open":
            raise Refusal(405 if pull.merged else 404, "")
        if self.people[self._me] not in {"admin", "write"}:
            raise Refusal(405, "User not allowed to merge PR")
        if self.draft(pull):
            raise Refusal(405, "Work in progress PRs cannot be merged")
        if not self.merges(pull, looks=True):
            raise Refusal(405, "Please try again later")
        if self.demands_newest and self.origin.behind(pull.base_sha, pull.head):
            told = (
                "User not allowed to merge PR [reason: The head branch is behind the base branch]"
            )
            raise Refusal(405, told)
        if self.refuses_merges:
            raise Refusal(405, self.refuses_merges)
        if body["Do"] not in self.styles:
            raise Refusal(405, f"{body['Do']} is not allowed an allowed merge style for this repo")
        if body.get("head_commit_id") not in {None, "", pull.head}:
            raise Refusal(409, "head out of date")
        message = "\n\n".join(
            filter(None, (body.get("MergeTitleField"), body.get("MergeMessageField")))
        )
        message = message or f"Merge pull request '{pull.title}'"
        pull.merged = self.origin.merge(pull.base, pull.head, message, method=body["Do"])
        pull.state, pull.ended = "closed", self.now()
        return Reply(200)

    def _ask_for_review(self, asked: Asked) -> Reply:
        names = asked.json()["reviewers"]
        if unknown := [each for each in names if each not in self.people]:
            raise Refusal(404, f"user does not exist [uid: 0, name: {unknown[0]}]")
        self._pull(asked).asked += names
        return answers([], status=201)

    def _update(self, asked: Asked) -> Reply:
        pull = self._pull(asked)
        assert asked.query == {"style": "merge"}
        message = f"Merge branch '{pull.base}' into {pull.branch}"
        self.origin.merge(pull.branch, pull.base_sha, message)
        return Reply(OK)

    def _lines(self, asked: Asked) -> Reply:
        for review in self._pull(asked).reviews:
            if str(review["id"]) == asked.names["review"]:
                return answers(review["comments"])
        raise Refusal(404, "review does not exist")

    def _comments(self, asked: Asked) -> list[dict[str, Any]]:
        if int(asked.names["number"]) in self.issues:
            return self.issue_at(asked, "number").comments
        return self._pull(asked).comments

    def _all_labels(self) -> list[dict[str, Any]]:
        return [*self.labels, *(self.org_labels or ())]

    def _issue_form(self, issue: Issue) -> dict[str, Any]:
        known = {row["name"]: row for row in self._all_labels()}
        labels = [known.get(name, {"id": 0, "name": name}) for name in issue.labels]
        number = next(number for number, each in self.issues.items() if each is issue)
        state = "open" if issue.open else "closed"
        told = {"number": number, "title": issue.title, "body": issue.body, "state": state}
        return {**told, "labels": labels}

    def _issues(self, asked: Asked) -> list[dict[str, Any]]:
        return [self._issue_form(each) for _, each in self.issues_for(asked.query, "q")]

    def _close_issue(self, asked: Asked) -> Reply:
        issue = self.issue_at(asked, "number")
        issue.open = asked.json()["state"] != "closed"
        return answers(self._issue_form(issue), status=201)

    def _edit_comment(self, asked: Asked) -> dict[str, Any]:
        for issue in self.issues.values():
            for row in issue.comments:
                if str(row["id"]) == asked.names["id"]:
                    row["body"] = asked.json()["body"]
                    return row
        raise Refusal(404, "comment does not exist")

    def _put_labels(self, asked: Asked) -> Reply:
        issue = self.issue_at(asked, "number")
        for row in self._all_labels():
            if row["id"] in asked.json()["labels"] and row["name"] not in issue.labels:
                scope = row["name"].rpartition("/")[0]
                if row.get("exclusive") and scope:
                    issue.labels = [x for x in issue.labels if x.rpartition("/")[0] != scope]
                issue.labels.append(row["name"])
        return answers(self._issue_form(issue)["labels"])

    def _take_label(self, asked: Asked) -> Reply:
        issue = self.issue_at(asked, "number")
        (name,) = [x["name"] for x in self._all_labels() if str(x["id"]) == asked.names["id"]]
        issue.labels.remove(name)
        return Reply(204)

    def _comment(self, asked: Asked) -> Reply:
        if int(asked.names["number"]) in self.issues:
            body = {"id": self.new_id(), "body": asked.json()["body"], "user": self.user(self._me)}
            self.issue_at(asked, "number").comments.append(body)
            return answers(body, status=201)
        number = self._pull(asked).number
        return answers(self.comment(number, self._me, asked.json()["body"]), status=201)

    def shown(self, pull: Pull, *, looks: bool = False) -> dict[str, Any]:
        gone = self.origin.head(pull.branch) is None
        ended = self.time(pull.ended) if pull.ended else None
        return {
            "id": 1000 + pull.number, "number": pull.number, "title": pull.title,
            "body": pull.body, "state": pull.state, "draft": self.draft(pull),
            "assignees": [self.user(who) for who in pull.assignees] or None,
            "user": self.user(pull.author), "html_url": f"{self.html()}/pulls/{pull.number}",
            "mergeable": pull.state == "open" and self.merges(pull, looks=looks),
            "merged": bool(pull.merged), "merge_commit_sha": pull.merged or None,
            "merged_at": ended if pull.merged else None, "closed_at": ended,
            "merge_base": self.origin.merge_base(pull.base_sha, pull.head),
            "base": {"label": pull.base, "ref": pull.base, "sha": pull.base_sha, "repo_id": 5},
            "head": {
                "label": pull.branch, "sha": pull.head,
                "ref": f"refs/pull/{pull.number}/head" if gone else pull.branch,
                "repo_id": pull.head_repo,
            },
            "created_at": self.time(pull.created), "updated_at": self.time(pull.updated),
        }  # fmt: skip
