"""The runs of Gitea's own Actions: which job a status is about, and the end of its log.

Owns fetching them, where the server offers it; elsewhere only the status is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.events import clean_tail
from ci.forge.json_fields import number, rows, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci.events import Check
    from ci.http.client import HttpClient

_RUNS = "/actions/runs/"
_UNKNOWN = (MissingError, ForbiddenError, RefusedError)


async def explained(http: HttpClient, at: str, sha: str, check: Check) -> Check:
    """Return the check with its failed step and the end of its log, where available."""
    if _RUNS not in check.url:
        return check
    try:
        job = await _job_of(http, at, sha, check)
        if job is None:
            return check
        log = await http.tail(f"{at}/actions/jobs/{number(job, 'id')}/logs")
    except _UNKNOWN:
        # Older servers and Forgejo tell less of their runs, and logs expire.
        return check
    failed = [
        text(step, "name")
        for step in rows(job, "steps")
        if text(step, "conclusion") in {"failure", "cancelled"}
    ]
    summary = f"failed in {', '.join(failed)}" if failed else check.summary
    return check.model_copy(update={"summary": summary, "excerpt": clean_tail(log)})


async def rerun(http: HttpClient, at: str, sha: str, checks: Sequence[Check]) -> bool:
    """Rerun the failed jobs of all runs that the checks are about, or nothing."""
    runs: set[int] = set()
    try:
        for check in checks:
            job = await _job_of(http, at, sha, check) if _RUNS in check.url else None
            run = number(job, "run_id")
            if run is None:
                return False
            runs.add(run)
        for run in sorted(runs):
            await http.send("POST", f"{at}/actions/runs/{run}/rerun-failed-jobs")
    except _UNKNOWN:
        # Older servers and Forgejo do not offer it, or we may not.
        return False
    return bool(runs)


async def _job_of(http: HttpClient, at: str, sha: str, check: Check) -> dict[str, Any] | None:
    runs = await http.get_all(f"{at}/actions/runs", params={"head_sha": sha}, key="workflow_runs")
    for run in runs:
        path = f"{at}/actions/runs/{number(run, 'id')}/jobs"
        for job in await http.get_all(path, key="jobs"):
            if _is_about(job, check):
                return {"run_id": number(run, "id"), **job}
    return None


def _is_about(job: object, check: Check) -> bool:
    name, page = text(job, "name"), text(job, "html_url")
    # A context has the form `workflow / job (event)`.
    worded = name and check.name.partition(" / ")[2].rpartition(" (")[0] == name
    return isinstance(job, dict) and (page == check.url or bool(worded))
