"""Why a check on GitHub is red: the failed step and the end of its log, else the check's output.

Owns where the explanation is found. Must not judge: the check's state is unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, GarbledError, MissingError, RefusedError
from ci.forge.json_fields import number, rows, text
from ci.github.logs import excerpt_of, failed_steps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ci.events import Check
    from ci.github.client import GitHubClient

_NOT_TOLD = (ForbiddenError, GarbledError, MissingError, RefusedError)
"""A log that is deleted (after 90 days), not readable for us or not text."""
_MOST_NOTES = 50


async def explained(api: GitHubClient, at: str, check: Check) -> Check:
    """Return the check with what is known about its failure; `at` is the repository's path."""
    kind, _, identity = check.ref.partition(":")
    if kind == "job":
        job = identity.partition(":")[0]
        told = await _by_job(api, at, check, job)
        # A job of Actions and its check run have the same number.
        return told if told.excerpt.strip() else await _by_output(api, at, told, job)
    if kind == "check":
        return await _by_output(api, at, check, identity)
    return check.model_copy(update={"excerpt": check.summary})


async def _by_job(api: GitHubClient, at: str, check: Check, job: str) -> Check:
    try:
        body = (await api.get(f"{at}/actions/jobs/{job}")).body
    except _NOT_TOLD:
        return check
    failed = failed_steps(body)
    name = text(body, "name") or check.name
    steps = ", ".join(repr(text(step, "name")) for step in failed)
    summary = f"job {name!r} failed in step {steps}" if failed else f"job {name!r}: {check.how}"
    try:
        log = await api.log(f"{at}/actions/jobs/{job}/logs")
    except _NOT_TOLD:
        log = ""
    # Validated again, which cleans and cuts the excerpt.
    return _with(check, summary=summary, excerpt=excerpt_of(log, failed))


async def _by_output(api: GitHubClient, at: str, check: Check, identity: str) -> Check:
    try:
        run = (await api.get(f"{at}/check-runs/{identity}")).body
    except _NOT_TOLD:
        return check
    parts = [text(run, "output", name) for name in ("title", "summary", "text")]
    if number(run, "output", "annotations_count"):
        parts += await _notes(api, f"{at}/check-runs/{identity}/annotations")
    said = "\n".join(part for part in parts if part.strip())
    return _with(
        check, summary=check.summary or text(run, "output", "title"), excerpt=said or check.summary
    )


async def _notes(api: GitHubClient, address: str) -> list[str]:
    try:
        body = (await api.get(address, params={"per_page": _MOST_NOTES})).body
    except _NOT_TOLD:
        return []
    notes = rows({"": body}, "") or rows(body, "check_annotations")
    return [_note(note) for note in notes]


def _note(note: Mapping[str, Any]) -> str:
    place = f"{text(note, 'path')}:{number(note, 'start_line') or 0}"
    return f"{place}: {text(note, 'annotation_level')}: {text(note, 'message')}"


def _with(check: Check, *, summary: str, excerpt: str) -> Check:
    return type(check).model_validate(
        {**check.model_dump(), "summary": summary, "excerpt": excerpt}
    )
