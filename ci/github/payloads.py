"""What GitHub's answers mean: checks, pull requests and reviews as `ci.forge.protocol` has them.

Owns the words of GitHub's REST answers. Pure; a missing or new field never raises, and an unknown
word never counts as success.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci.events import Check, CheckState
from ci.forge.json_fields import (
    at,
    epoch,
    flag,
    needed_number,
    needed_text,
    number,
    rows,
    text,
    worst_of_each_name,
)
from ci.forge.protocol import BranchRules, ForgePull
from ci.interface import PullRequestState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# | GitHub's word                                            | means   |
# |----------------------------------------------------------|---------|
# | success, neutral, skipped                                | passed  |
# | failure, error, timed_out, startup_failure, cancelled    | failed  |
# | action_required, stale, queued, in_progress, requested,  | pending |
# | waiting, pending, and every word that is not listed here |         |
STATES: dict[str, CheckState] = {
    "success": CheckState.PASSED,
    "neutral": CheckState.PASSED,
    "skipped": CheckState.PASSED,
    "failure": CheckState.FAILED,
    "error": CheckState.FAILED,
    "timed_out": CheckState.FAILED,
    "startup_failure": CheckState.FAILED,
    "cancelled": CheckState.FAILED,
    "action_required": CheckState.PENDING,
    "stale": CheckState.PENDING,
    "queued": CheckState.PENDING,
    "in_progress": CheckState.PENDING,
    "requested": CheckState.PENDING,
    "waiting": CheckState.PENDING,
    "pending": CheckState.PENDING,
}

GIVES_WAY = frozenset({"cancelled", "skipped", "stale"})
"""Conclusions that a later check of the same name overrides: the run was replaced, not judged."""

_PULL = "a pull request"
_JOB = re.compile(r"/actions/runs/(?P<run>\d+)/jobs?/(?P<job>\d+)")
_QUIET = frozenset({"", "clean", "has_hooks", "unknown", "dirty"})
"""States of a pull request that block nothing, or that `mergeable` covers."""


def state_of(word: str) -> CheckState:
    """Judge a status, a conclusion or a state of a commit status."""
    return STATES.get(word, CheckState.PENDING)


def checks_of(
    runs: Iterable[Mapping[str, Any]], statuses: Iterable[Mapping[str, Any]]
) -> tuple[Check, ...]:
    """Join check runs and statuses: one check per name, in order of names.

    Of several with one name (of two events, two workflows or two apps) the worst counts, as it is
    unknown which of them matters; only those in `GIVES_WAY` are overridden by a later one.
    """
    return worst_of_each_name(
        [
            *(check_of_run(run) for run in _that_count(runs)),
            *(check_of_status(status) for status in _newest_of_each_context(statuses)),
        ]
    )


def branch_rules_of(rulesets: object, branch: object) -> BranchRules:
    """Join the rulesets that apply to a branch and its classic protection."""
    rules = rows({"": rulesets}, "")
    by_rule = [rule for rule in rules if text(rule, "type") == "required_status_checks"]
    classic = at(branch, "protection", "required_status_checks")
    named = [text(each, "context") for rule in by_rule
             for each in rows(rule, "parameters", "required_status_checks")]  # fmt: skip
    if text(classic, "enforcement_level") != "off":
        contexts = at(classic, "contexts")
        named += [str(each) for each in contexts] if isinstance(contexts, list) else []
        named += [text(each, "context") for each in rows(classic, "checks")]
    approvals = [number(rule, "parameters", "required_approving_review_count") or 0
                 for rule in rules if text(rule, "type") == "pull_request"]  # fmt: skip
    return BranchRules(
        required_checks=tuple(dict.fromkeys(filter(None, named))),
        required_approvals=max(approvals, default=0),
        up_to_date=any(
            flag(rule, "parameters", "strict_required_status_checks_policy") for rule in by_rule
        ),
        queue=any(text(rule, "type") == "merge_queue" for rule in rules),
    )


def check_of_run(run: Mapping[str, Any]) -> Check:
    """Read a check run."""
    status, conclusion = text(run, "status"), text(run, "conclusion")
    how = conclusion or "pending" if status == "completed" else status or "pending"
    return Check(
        name=text(run, "name") or f"check {number(run, 'id')}",
        state=state_of(how),
        how=how,
        summary=text(run, "output", "title"),
        url=text(run, "html_url") or text(run, "details_url"),
        ref=_ref_of(run),
    )


def check_of_status(status: Mapping[str, Any]) -> Check:
    """Read a commit status."""
    how = text(status, "state") or "pending"
    return Check(
        name=text(status, "context") or "default",
        state=state_of(how),
        how=how,
        summary=text(status, "description"),
        url=text(status, "target_url"),
        ref=f"status:{number(status, 'id')}",
    )


def pull_of(body: object, *, queued: bool = False, group: str = "") -> ForgePull:
    """Read a pull request, from a list or on its own."""
    merged = flag(body, "merged") or bool(text(body, "merged_at"))
    state = PullRequestState.OPEN if text(body, "state") == "open" else PullRequestState.CLOSED
    how, draft = text(body, "mergeable_state"), flag(body, "draft")
    return ForgePull(
        number=needed_number(_PULL, body, "number"),
        url=text(body, "html_url"),
        branch=text(body, "head", "ref"),
        base=text(body, "base", "ref"),
        head_sha=needed_text(_PULL, body, "head", "sha"),
        base_sha=text(body, "base", "sha"),
        title=text(body, "title"),
        body=text(body, "body"),
        state=PullRequestState.MERGED if merged else state,
        draft=draft,
        mergeable=_mergeable(at(body, "mergeable"), how),
        hindrance="draft" if draft else how if how not in _QUIET else "",
        behind=how == "behind",
        queued=queued,
        group_sha=group,
        # Before the merge it is only GitHub's trial merge.
        merge_commit=(text(body, "merge_commit_sha") or None) if merged else None,
        ours=_of_this_repository(body),
        created_at=epoch(body, "created_at"),
        updated_at=epoch(body, "updated_at") or epoch(body, "created_at"),
    )


def _of_this_repository(body: object) -> bool:
    # A deleted fork has no name.
    theirs, ours = (text(body, side, "repo", "full_name").lower() for side in ("head", "base"))
    return theirs != "" and theirs == ours


def _mergeable(told: object, how: str) -> bool | None:
    if how == "dirty":
        return False
    return told if isinstance(told, bool) and how != "unknown" else None


def _ref_of(run: Mapping[str, Any]) -> str:
    job = _JOB.search(text(run, "details_url")) or _JOB.search(text(run, "html_url"))
    if job is not None:
        return f"job:{job['job']}:{job['run']}"
    if text(run, "app", "slug") == "github-actions":
        return f"job:{number(run, 'id')}:"
    return f"check:{number(run, 'id')}"


def _that_count(runs: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    kept = list(runs)
    latest: dict[str, int] = {}
    for run in kept:
        name = text(run, "name")
        latest[name] = max(latest.get(name, 0), number(run, "id") or 0)
    for run in kept:
        replaced = (number(run, "id") or 0) < latest[text(run, "name")]
        if not (replaced and text(run, "conclusion") in GIVES_WAY):
            yield run


def _newest_of_each_context(
    statuses: Iterable[Mapping[str, Any]],
) -> Iterable[Mapping[str, Any]]:
    newest: dict[str, Mapping[str, Any]] = {}
    for status in statuses:
        kept = newest.get(text(status, "context"))
        if kept is None or _age(status) > _age(kept):
            newest[text(status, "context")] = status
    return newest.values()


def _age(status: Mapping[str, Any]) -> tuple[float, int]:
    at_last = epoch(status, "updated_at") or epoch(status, "created_at")
    return at_last, number(status, "id") or 0
