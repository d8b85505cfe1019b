"""Fetches what GitLab says about a commit: pipelines with their jobs, statuses, status checks.

Owns the requests, and which pipelines are about a commit. What they mean is in
`ci.gitlab.pipelines`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forge.json_fields import at, flag, number, rows, text
from ci.gitlab.pipelines import (
    Pipelines,
    checks_of,
    current_pipelines,
    explained,
    from_outside,
    id_of,
    status_check_of,
    with_optional,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ci.events import Check
    from ci.gitlab.project import GitLabProject
    from ci.http.client import HttpClient

ASK_AGAIN = 600.0
"""Seconds for which what has no external status checks is not asked for them."""
_ANY = 0
"""Stands for every merge request: an edition without status checks has none of them."""
DEEPEST = 3
"""How many generations of child pipelines are searched for the job that failed."""
_MERGED_RESULT = "/merge"
"""How the ref of a pipeline on a merged result ends."""
_PAGE: Mapping[str, str | int] = {"per_page": 100}


class GitLabChecks:
    """The pipelines of one project."""

    def __init__(
        self, http: HttpClient, path: str, project: GitLabProject, *, now: Callable[[], float]
    ) -> None:
        self._http = http
        self._path = path
        self._project = project
        self._now = now
        self._tested: dict[str, tuple[str, ...]] = {}
        """The parents of commits that GitLab made to test a merge; they never change."""
        self._childless: set[int] = set()
        """Pipelines that start no child pipelines; that never changes either."""
        self._no_status_checks_until: dict[int, float] = {}
        """By merge request, as those of some target branches may have none."""

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return what all current pipelines and statuses say of exactly this commit."""
        all_of = await self._http.get_all(f"{self._path}/pipelines", params={**_PAGE, "sha": sha})
        known = [row for row in all_of if id_of(row) and text(row, "sha") == sha]
        pulls = await self._pulls_of(sha)
        current = current_pipelines([*known, *await self._merged_results(sha, known, pulls)])
        jobs: list[dict[str, Any]] = []
        for pipeline in current:
            if not from_outside(pipeline):
                jobs += await self._jobs_of(pipeline)
        found = Pipelines(current=current, jobs=jobs, statuses=await self._statuses(sha))
        settings = await self._project.settings()
        outside = [
            check
            for iid in pulls
            for row in await self._status_checks(iid)
            if (check := status_check_of(row, iid, settings)) is not None
        ]
        return with_optional([*checks_of(found, settings), *outside])

    async def on_branch(self, branch: str) -> bool:
        """Return whether there is a pipeline of a branch; statuses from outside make one too."""
        told = await self._http.get_all(
            f"{self._path}/pipelines", params={"ref": branch, "per_page": 1}, most=1
        )
        return bool(told)

    async def explain(self, check: Check) -> Check:
        """Return the check with its stage, why it failed, and the end of its log."""
        kind, _, key = check.ref.partition(":")
        if kind == "pipeline":
            told = (await self._http.get(f"{self._path}/pipelines/{key}")).body
            return check.model_copy(update={"summary": text(told, "yaml_errors") or check.summary})
        if kind == "child":
            return await self._explain_child(check, key)
        return await self._explain_job(check, self._path, key) if kind == "job" else check

    async def rerun(self, checks: Sequence[Check]) -> bool:
        """Rerun failed jobs; one that GitLab does not rerun is ignored."""
        begun = False
        for check in checks:
            place = self._retried(check)
            if not place:
                continue
            try:
                await self._http.send("POST", f"{place}/retry")
            except (RefusedError, MissingError, ForbiddenError):
                continue
            begun = True
        return begun

    def _retried(self, check: Check) -> str:
        """Return the address of what is run again; empty where nothing is."""
        kind, _, key = check.ref.partition(":")
        project, _, child = key.partition("/")
        return {
            "job": f"{self._path}/jobs/{key}",
            "pipeline": f"{self._path}/pipelines/{key}",
            "external": f"{self._path}/merge_requests/{key}",
            "child": f"{self._of(project)}/pipelines/{child}" if child else "",
        }.get(kind, "")

    def _of(self, project: str) -> str:
        return f"/projects/{project}" if project else self._path

    async def _explain_job(self, check: Check, project: str, key: str) -> Check:
        job = (await self._http.get(f"{project}/jobs/{key}")).body
        try:
            log = await self._http.tail(f"{project}/jobs/{key}/trace")
        except (MissingError, ForbiddenError):
            # Logs expire, and a project may hide them: the reason is still useful.
            log = ""
        return explained(check, job, log)

    async def _explain_child(self, check: Check, key: str) -> Check:
        """Name the job of the child pipeline that failed, with the end of its log."""
        project, _, pipeline = key.partition("/")
        if not pipeline:
            return check.model_copy(update={"summary": "its child pipeline could not be created"})
        for _ in range(DEEPEST):
            place = f"{self._of(project)}/pipelines/{pipeline}"
            try:
                failed = [row for row in await self._rows(f"{place}/jobs") if _is_cause(row)]
                if failed:
                    job = min(failed, key=id_of)
                    told = await self._explain_job(check, self._of(project), str(id_of(job)))
                    named = f"{text(job, 'name')} of its child pipeline failed: {told.summary}"
                    return told.model_copy(update={"summary": named})
                bridges = [row for row in await self._rows(f"{place}/bridges") if _is_cause(row)]
            except (MissingError, ForbiddenError):
                break  # a project that we may not see
            child = at(bridges[0], "downstream_pipeline") if bridges else None
            project, pipeline = str(number(child, "project_id") or project), str(id_of(child))
        return check.model_copy(update={"summary": check.summary or "its child pipeline failed"})

    async def _jobs_of(self, pipeline: dict[str, Any]) -> list[dict[str, Any]]:
        """Return its jobs, and those that start child pipelines."""
        key = id_of(pipeline)
        place = f"{self._path}/pipelines/{key}"
        jobs = await self._rows(f"{place}/jobs")
        if key in self._childless:
            return jobs
        try:
            bridges = await self._rows(f"{place}/bridges")
        except (MissingError, ForbiddenError):
            bridges = []
        if not bridges and jobs:
            self._childless.add(key)
        return [*jobs, *({"downstream_pipeline": None, **row} for row in bridges)]

    async def _rows(self, path: str) -> list[dict[str, Any]]:
        return rows({"": await self._http.get_all(path, params=_PAGE)}, "")

    async def _statuses(self, sha: str) -> list[dict[str, Any]]:
        try:
            return await self._rows(f"{self._path}/repository/commits/{sha}/statuses")
        except MissingError:
            # The commit does not exist there yet; the project does, as its pipelines were returned.
            return []

    async def _status_checks(self, iid: int) -> list[dict[str, Any]]:
        """Return the external status checks of a merge request; not every edition has them."""
        if any(self._now() < self._no_status_checks_until.get(key, 0.0) for key in (_ANY, iid)):
            return []
        try:
            found = await self._rows(f"{self._path}/merge_requests/{iid}/status_checks")
        except (MissingError, ForbiddenError):
            found, iid = [], _ANY
        if not found:
            self._no_status_checks_until[iid] = self._now() + ASK_AGAIN
        return found

    async def _pulls_of(self, sha: str) -> list[int]:
        """Return the numbers of the open merge requests whose head is this commit."""
        try:
            told = await self._rows(f"{self._path}/repository/commits/{sha}/merge_requests")
        except MissingError:
            return []
        return [
            iid
            for row in told
            if text(row, "state") == "opened"
            and text(row, "sha") == sha
            and (iid := number(row, "iid")) is not None
        ]

    async def _merged_results(
        self, sha: str, known: Sequence[dict[str, Any]], pulls: Sequence[int]
    ) -> list[dict[str, Any]]:
        """Return pipelines on commits that GitLab made of this one and its target, to test that."""
        ids, found = {id_of(row) for row in known}, []
        for iid in pulls:
            newest = await self._newest_merged_result(iid)
            if newest is not None and id_of(newest) not in ids and await self._tests(newest, sha):
                found.append(newest)
        return found

    async def _newest_merged_result(self, iid: int) -> dict[str, Any] | None:
        """Return the newest pipeline of that kind; those of merge trains test other merges too."""
        path = f"{self._path}/merge_requests/{iid}/pipelines"
        told = rows({"": (await self._http.get(path, params=_PAGE)).body}, "")
        made = [row for row in told if text(row, "ref").endswith(_MERGED_RESULT)]
        return max(made, key=id_of, default=None)

    async def _tests(self, pipeline: dict[str, Any], sha: str) -> bool:
        """Return whether a pipeline is about the commit; an older head's is never taken for it."""
        made = text(pipeline, "sha")
        if made == sha or not made:
            return made == sha
        if made not in self._tested:
            told = (await self._http.get(f"{self._path}/repository/commits/{made}")).body
            parents = at(told, "parent_ids")
            self._tested[made] = tuple(parents) if isinstance(parents, list) else ()
        # Only a merge: the child of an older head would have that as its one parent.
        parents_of = self._tested[made]
        return len(parents_of) > 1 and sha in parents_of


def _is_cause(row: object) -> bool:
    return text(row, "status") == "failed" and not flag(row, "allow_failure")
