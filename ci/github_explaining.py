"""Why a check on GitHub is red: the failed step and the end of its log, else what the check says.

Owns where the explanation is found. Must not judge: the check's state stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, GarbledError, MissingError, RefusedError
from ci.forms import number, rows, text
from ci.github_logs import excerpt_of, failed_steps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ci.checks import Check
    from ci.github_door import GitHubDoor

_NOT_TOLD = (ForbiddenError, GarbledError, MissingError, RefusedError)
"""A log that is gone (they are kept for 90 days), not ours to read or no text."""
_MOST_NOTES = 50


async def explained(door: GitHubDoor, at: str, check: Check) -> Check:
    """Return the check with what is known about its failure; `at` is the repository's path."""
    kind, _, identity = check.ref.partition(":")
    if kind == "job":
        job = identity.partition(":")[0]
        told = await _by_job(door, at, check, job)
        # A job of Actions and its check run have the same number.
        return told if told.excerpt.strip() else await _by_output(door, at, told, job)
    if kind == "check":
        return await _by_output(door, at, check, identity)
    return check.model_copy(update={"excerpt": check.summary})


async def _by_job(door: GitHubDoor, at: str, check: Check, job: str) -> Check:
    try:
        body = (await door.get(f"{at}/actions/jobs/{job}")).body
    except _NOT_TOLD:
        return check
    failed = failed_steps(body)
    name = text(body, "name") or check.name
    steps = ", ".join(repr(text(step, "name")) for step in failed)
    summary = f"job {name!r} failed in step {steps}" if failed else f"job {name!r}: {check.how}"
    try:
        log = await door.log(f"{at}/actions/jobs/{job}/logs")
    except _NOT_TOLD:
        log = ""
    # Through the model again, so that the excerpt is cleaned and cut.
    return _with(check, summary=summary, excerpt=excerpt_of(log, failed))


async def _by_output(door: GitHubDoor, at: str, check: Check, identity: str) -> Check:
    try:
        run = (await door.get(f"{at}/check-runs/{identity}")).body
    except _NOT_TOLD:
        return check
    parts = [text(run, "output", name) for name in ("title", "summary", "text")]
    if number(run, "output", "annotations_count"):
        parts += await _notes(door, f"{at}/check-runs/{identity}/annotations")
    said = "\n".join(part for part in parts if part.strip())
    return _with(
        check, summary=check.summary or text(run, "output", "title"), excerpt=said or check.summary
    )


async def _notes(door: GitHubDoor, address: str) -> list[str]:
    try:
        body = (await door.get(address, params={"per_page": _MOST_NOTES})).body
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
