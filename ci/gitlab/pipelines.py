"""What GitLab's pipelines, jobs, commit statuses and status checks mean for a commit. Pure.

Owns GitLab's words for them, which pipeline counts, and which jobs are optional. Must not judge a
commit: that is done in `ci.verdict`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci.events import Check, CheckState, clean_tail
from ci.forge.json_fields import flag, number, text, worst_of_each_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ci.gitlab.project import MergeSettings

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
STATUS_CHECKS = {"passed": CheckState.PASSED, "failed": CheckState.FAILED}
"""Words of external status checks; any other is pending."""

_UNDONE = frozenset({CheckState.PENDING, CheckState.FAILED})
_OF_MERGE_REQUEST = "merge_request_event"
_CHILD = "parent_pipeline"
_LAST_OF_PULL = re.compile(r"(?<=refs/merge-requests/)(\d+)/\w+$")
_SECTION = re.compile(r"section_(?:start|end):\d+:[^\r\n\x1b]*(?:\r?\x1b\[0K)?")
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z \d\d[OE][ +]?", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipelines:
    """What GitLab lists about one commit."""

    current: Sequence[dict[str, Any]]
    jobs: Sequence[dict[str, Any]] = ()
    """Of the current pipelines; those that start a child pipeline have `downstream_pipeline`."""
    statuses: Sequence[dict[str, Any]] = ()
    """They hold the jobs again, also those of older pipelines and of children."""


def state_of(word: str) -> CheckState | None:
    """Return what a status means; an unknown one is pending."""
    return STATES.get(word, CheckState.PENDING)


def current_pipelines(pipelines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the newest pipeline of each branch and of each merge request.

    Statuses from outside have pipelines of their own; a child pipeline is told by the job that
    started it.
    """
    newest: dict[tuple[str, bool], dict[str, Any]] = {}
    for pipeline in pipelines:
        ref = _LAST_OF_PULL.sub(r"\1", text(pipeline, "ref"))
        key = (ref, from_outside(pipeline))
        if text(pipeline, "source") != _CHILD and id_of(pipeline) >= id_of(newest.get(key, {})):
            newest[key] = pipeline
    return sorted(newest.values(), key=id_of)


def checks_of(found: Pipelines, settings: MergeSettings) -> tuple[Check, ...]:
    """Join the current pipelines, their jobs and external statuses.

    Where a merge request has a pipeline, those of its branch do not count, as in GitLab.
    """
    rows = _newest_rows(found)
    waiting = {id_of(each) for each in found.current if text(each, "status") == "manual"}
    beside = _superseded_by_merge_request(found.current)
    ours = {id_of(job) for job in found.jobs}
    checks = []
    for row in rows:
        check = check_of(row, settings, job=id_of(row) in ours, waiting=waiting)
        if check is not None:
            of_branch = _pipeline_of(row) in beside
            checks.append(check.model_copy(update={"counts": False}) if of_branch else check)
    for pipeline in found.current:
        whole = _whole(pipeline, rows, settings)
        if whole is not None and id_of(pipeline) not in beside:
            checks.append(whole)
    return with_optional(checks)


def with_optional(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return the worst of each name; one that counts stands before one that does not."""
    known = list(checks)
    counted = worst_of_each_name(check for check in known if check.counts)
    names = {check.name for check in counted}
    beside = [check for check in known if not check.counts and check.name not in names]
    return (*counted, *worst_of_each_name(beside))


def check_of(
    row: dict[str, Any], settings: MergeSettings, *, job: bool, waiting: Collection[int] = ()
) -> Check | None:
    """Return a job or status as a check; None if it says nothing.

    One that may fail is optional until it has passed. A manual job that holds up its pipeline holds
    up a merge where the pipeline must pass.
    """
    word, may_fail, name = text(row, "status"), flag(row, "allow_failure"), text(row, "name")
    state, counts, summary = state_of(word), not may_fail, text(row, "description")
    held_up = _pipeline_of(row) in waiting
    if word == "manual" and held_up and not may_fail:
        state, counts = CheckState.PENDING, settings.pipeline_must_pass
        summary = "waits for somebody to start it"
    if state is None or not name:
        return None
    if word == "created" and held_up:
        summary = "the pipeline waits for a manual job"
    return Check(
        name=name,
        state=state,
        how=word,
        summary=summary or ("it may fail" if may_fail and word != "success" else ""),
        url=text(row, "web_url") or text(row, "target_url"),
        ref=_ref_of(row, job=job),
        counts=counts or state is CheckState.PASSED,
    )


def status_check_of(row: object, iid: int, settings: MergeSettings) -> Check | None:
    """Return an external status check of a merge request."""
    name, word = text(row, "name"), text(row, "status")
    if not name:
        return None
    return Check(
        name=name,
        state=STATUS_CHECKS.get(word, CheckState.PENDING),
        how=word,
        url=text(row, "external_url"),
        ref=f"external:{iid}/status_checks/{id_of(row)}",
        counts=settings.status_checks_must_pass,
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


def from_outside(pipeline: object) -> bool:
    """Return whether it only holds the statuses that somebody else reports."""
    return text(pipeline, "source") == "external"


def id_of(row: object) -> int:
    """Return the id of a row; 0 if it has none."""
    return number(row, "id") or 0


def _newest_rows(found: Pipelines) -> list[dict[str, Any]]:
    """Return the newest job or status of each name in each pipeline."""
    ours = {id_of(job) for job in found.jobs}
    names = {text(job, "name") for job in found.jobs}
    current = {0, *map(id_of, found.current)}
    newest: dict[tuple[str, int], dict[str, Any]] = {}
    for row in (*found.jobs, *found.statuses):
        of = _pipeline_of(row)
        # An older GitLab does not say whose status it is: a name of ours is a job told again.
        again = id_of(row) not in ours and not of and text(row, "name") in names
        key = (text(row, "name"), of)
        known = newest.get(key)
        if not again and of in current and (known is None or id_of(row) > id_of(known)):
            newest[key] = row
    return list(newest.values())


def _superseded_by_merge_request(pipelines: Iterable[dict[str, Any]]) -> set[int]:
    """Return the pipelines of branches, where there is one of a merge request."""
    own = [pipeline for pipeline in pipelines if not from_outside(pipeline)]
    others = {id_of(each) for each in own if text(each, "source") != _OF_MERGE_REQUEST}
    return others if len(others) < len(own) else set()


def _whole(
    pipeline: dict[str, Any], rows: Iterable[dict[str, Any]], settings: MergeSettings
) -> Check | None:
    """Return a check for a result that no job shows: a broken file, only optional jobs."""
    word = text(pipeline, "status")
    state = state_of(word)
    if word == "skipped" and settings.skipped_is_enough:
        state = CheckState.PASSED
    if state is None or from_outside(pipeline):
        return None
    parts = [row for row in rows if _pipeline_of(row) == id_of(pipeline)]
    said = {
        part
        for row in parts
        if (part := state_of(text(row, "status"))) is not CheckState.FAILED
        or not flag(row, "allow_failure")
    }
    shows = {CheckState.PASSED} if state is CheckState.PASSED else _UNDONE
    if said & shows:
        return None
    url, ref = text(pipeline, "web_url"), f"pipeline:{id_of(pipeline)}"
    return Check(name=PIPELINE, state=state, how=word, url=url, ref=ref)


def _ref_of(row: dict[str, Any], *, job: bool) -> str:
    if not job:
        return f"status:{id_of(row)}"
    if "downstream_pipeline" not in row:
        return f"job:{id_of(row)}"
    child = row["downstream_pipeline"]
    return f"child:{number(child, 'project_id') or ''}/{id_of(child) or ''}"


def _pipeline_of(row: object) -> int:
    inside = number(row, "pipeline", "id")
    return inside if inside is not None else number(row, "pipeline_id") or 0
