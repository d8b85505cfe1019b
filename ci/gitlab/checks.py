"""What GitLab's pipelines, jobs and commit statuses say about a commit.

Owns GitLab's words for them, which pipeline counts, and fetching them. Must not judge a commit:
that is done in `ci.verdict`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.events import Check, CheckState, clean_tail
from ci.forge.json_fields import at, flag, number, rows, text, worst_of_each_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ci.http.client import HttpClient

PIPELINE = "pipeline"
"""The name of the check for a pipeline whose result none of its jobs shows."""

STATES: dict[str, CheckState | None] = {
    "success": CheckState.PASSED,
    "failed": CheckState.FAILED,
    "canceled": CheckState.FAILED,
    "skipped": None,
    "manual": None,
    "created": CheckState.PENDING,
    "waiting_for_resource": CheckState.PENDING,
    "waiting_for_callback": CheckState.PENDING,
    "preparing": CheckState.PENDING,
    "pending": CheckState.PENDING,
    "running": CheckState.PENDING,
    "scheduled": CheckState.PENDING,
    "canceling": CheckState.PENDING,
}
"""None: it says nothing, and a commit with nothing else has no check at all."""

_MERGED_RESULT = "/merge"
"""How the ref of a pipeline on a merged result ends."""
_SECTION = re.compile(r"section_(?:start|end):\d+:[^\r\n\x1b]*(?:\r?\x1b\[0K)?")
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z \d\d[OE][ +]?", re.MULTILINE)


class GitLabChecks:
    """The pipelines of one project."""

    def __init__(self, http: HttpClient, project: str) -> None:
        self._http = http
        self._project = project
        self._tested: dict[str, tuple[str, ...]] = {}
        """The parents of commits that GitLab made to test a merge; they never change."""

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return what all current pipelines and statuses say of exactly this commit."""
        all_of = await self._http.get_all(f"{self._project}/pipelines", params={"sha": sha})
        known = [row for row in all_of if _id(row) and text(row, "sha") == sha]
        current = current_pipelines([*known, *await self._merged_results(sha, known)])
        jobs: list[dict[str, Any]] = []
        for pipeline in current:
            if not _from_outside(pipeline):
                path = f"{self._project}/pipelines/{_id(pipeline)}/jobs"
                jobs += [row for row in await self._http.get_all(path) if isinstance(row, dict)]
        superseded = {_id(row) for row in known} - {_id(row) for row in current}
        return checks_of(current, jobs, await self._statuses(sha), superseded)

    async def explain(self, check: Check) -> Check:
        """Return the check with its stage, why it failed, and the end of its log."""
        kind, _, key = check.ref.partition(":")
        if kind == "pipeline":
            told = (await self._http.get(f"{self._project}/pipelines/{key}")).body
            return check.model_copy(update={"summary": text(told, "yaml_errors") or check.summary})
        if kind != "job":
            return check
        job = (await self._http.get(f"{self._project}/jobs/{key}")).body
        try:
            log = await self._http.tail(f"{self._project}/jobs/{key}/trace")
        except (MissingError, ForbiddenError):
            # Logs expire, and a project may hide them: the reason is still useful.
            log = ""
        return explained(check, job, log)

    async def rerun(self, checks: Sequence[Check]) -> bool:
        """Rerun failed jobs; one that GitLab does not rerun is ignored."""
        begun = False
        for check in checks:
            kind, _, key = check.ref.partition(":")
            place = {"job": "jobs", "pipeline": "pipelines"}.get(kind)
            if place is None:
                continue
            try:
                await self._http.send("POST", f"{self._project}/{place}/{key}/retry")
            except (RefusedError, MissingError, ForbiddenError):
                continue
            begun = True
        return begun

    async def _statuses(self, sha: str) -> list[dict[str, Any]]:
        try:
            told = await self._http.get_all(f"{self._project}/repository/commits/{sha}/statuses")
        except MissingError:
            # The commit does not exist there yet; the project does, as its pipelines were returned.
            return []
        return [row for row in told if isinstance(row, dict)]

    async def _merged_results(
        self, sha: str, known: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return pipelines on commits that GitLab made of this one and its target, to test that."""
        path = f"{self._project}/repository/commits/{sha}/merge_requests"
        try:
            told = await self._http.get_all(path)
        except MissingError:
            return []
        ids = {_id(row) for row in known}
        found = []
        for row in told:
            iid = number(row, "iid")
            if iid is None or text(row, "state") != "opened" or text(row, "sha") != sha:
                continue
            newest = await self._newest_merged_result(iid)
            if newest is not None and _id(newest) not in ids and await self._tests(newest, sha):
                found.append(newest)
        return found

    async def _newest_merged_result(self, iid: int) -> dict[str, Any] | None:
        """Return the newest pipeline of that kind; those of merge trains test other merges too."""
        path = f"{self._project}/merge_requests/{iid}/pipelines"
        told = rows({"": (await self._http.get(path, params={"per_page": 100})).body}, "")
        made = [row for row in told if text(row, "ref").endswith(_MERGED_RESULT)]
        return max(made, key=_id, default=None)

    async def _tests(self, pipeline: dict[str, Any], sha: str) -> bool:
        """Return whether a pipeline is about the commit; an older head's is never taken for it."""
        made = text(pipeline, "sha")
        if made == sha or not made:
            return made == sha
        if made not in self._tested:
            told = (await self._http.get(f"{self._project}/repository/commits/{made}")).body
            parents = at(told, "parent_ids")
            self._tested[made] = tuple(parents) if isinstance(parents, list) else ()
        # Only a merge: the child of an older head would have that as its one parent.
        parents_of = self._tested[made]
        return len(parents_of) > 1 and sha in parents_of


def state_of(word: str, *, may_fail: bool = False) -> CheckState | None:
    """Return what a status means; an unknown one is pending."""
    state = STATES.get(word, CheckState.PENDING)
    return CheckState.PASSED if may_fail and state is CheckState.FAILED else state


def current_pipelines(pipelines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the newest pipeline of each ref; statuses from outside have pipelines of their own."""
    newest: dict[tuple[str, bool], dict[str, Any]] = {}
    for pipeline in pipelines:
        key = (text(pipeline, "ref"), _from_outside(pipeline))
        if _id(pipeline) >= _id(newest.get(key, {})):
            newest[key] = pipeline
    return sorted(newest.values(), key=_id)


def checks_of(
    pipelines: Sequence[dict[str, Any]],
    jobs: Sequence[dict[str, Any]],
    statuses: Sequence[dict[str, Any]],
    superseded: Collection[int],
) -> tuple[Check, ...]:
    """Join the current pipelines, their jobs and external statuses.

    The statuses hold the jobs again, also those of superseded pipelines.
    """
    ours = {_id(job) for job in jobs}
    names = {text(job, "name") for job in jobs}
    newest: dict[tuple[str, int], dict[str, Any]] = {}
    for row in (*jobs, *statuses):
        of = _pipeline_of(row)
        # An older GitLab does not say whose status it is: a name of ours is a job told again.
        again = _id(row) not in ours and not of and text(row, "name") in names
        key = (text(row, "name"), of)
        known = newest.get(key)
        if not again and of not in superseded and (known is None or _id(row) > _id(known)):
            newest[key] = row
    waiting = {_id(pipeline) for pipeline in pipelines if text(pipeline, "status") == "manual"}
    found = [check_of(row, job=_id(row) in ours, waiting=waiting) for row in newest.values()]
    found += [_whole(pipeline, newest.values()) for pipeline in pipelines]
    return worst_of_each_name(check for check in found if check is not None)


def check_of(row: dict[str, Any], *, job: bool, waiting: Collection[int] = ()) -> Check | None:
    """Return a job or status as a check; None if it says nothing."""
    word, may_fail = text(row, "status"), flag(row, "allow_failure")
    state = state_of(word, may_fail=may_fail)
    name = text(row, "name")
    if state is None or not name:
        return None
    summary = text(row, "description")
    if state is CheckState.PASSED and word != "success":
        summary = summary or "it may fail"
    if word == "created" and _pipeline_of(row) in waiting:
        summary = "the pipeline waits for a manual job"
    return Check(
        name=name,
        state=state,
        how=word,
        summary=summary,
        url=text(row, "web_url") or text(row, "target_url"),
        ref=f"{'job' if job else 'status'}:{_id(row)}",
    )


def explained(check: Check, job: object, log: str) -> Check:
    """Return the check of a job with its stage, why it failed, and the end of its log."""
    stage, why = text(job, "stage"), text(job, "failure_reason").replace("_", " ")
    said = ", ".join(filter(None, (stage and f"stage {stage}", why)))
    return check.model_copy(
        update={
            "summary": said or check.summary,
            "excerpt": clean_tail(clean_trace(log)),
            "url": check.url or text(job, "web_url"),
        }
    )


def clean_trace(log: str) -> str:
    """Return a job's log without the marks that GitLab's pages fold it by."""
    return _STAMP.sub("", _SECTION.sub("", log))


def _whole(pipeline: dict[str, Any], parts: Iterable[dict[str, Any]]) -> Check | None:
    """Return a check for a result that no job shows: a child pipeline, a broken file."""
    word = text(pipeline, "status")
    state = state_of(word)
    if state not in {CheckState.FAILED, CheckState.PENDING} or _from_outside(pipeline):
        return None
    said = {
        state_of(text(part, "status"), may_fail=flag(part, "allow_failure"))
        for part in parts
        if _pipeline_of(part) == _id(pipeline)
    }
    if said & {CheckState.PENDING, CheckState.FAILED}:
        return None
    url, ref = text(pipeline, "web_url"), f"pipeline:{_id(pipeline)}"
    return Check(name=PIPELINE, state=state, how=word, url=url, ref=ref)


def _from_outside(pipeline: object) -> bool:
    return text(pipeline, "source") == "external"


def _pipeline_of(row: object) -> int:
    inside = number(row, "pipeline", "id")
    return inside if inside is not None else number(row, "pipeline_id") or 0


def _id(row: object) -> int:
    return number(row, "id") or 0
