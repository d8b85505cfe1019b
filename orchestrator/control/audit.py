"""The audit as commands, API and pages show it: its entries, and whether its chain is whole.

Must not change an entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from lifecycle.store.sqlite.audit_trail import TrailReader

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lifecycle.audit import AuditVerdict


class AuditEntryForm(TypedDict):
    """Who did what to whom, and why."""

    seq: int
    at: float
    actor: str
    action: str
    subject: str
    outcome: str
    reason: str
    details: dict[str, Any]
    prev_hash: str
    hash: str


class AuditForm(TypedDict):
    """A page of the audit, the newest entry first."""

    items: list[AuditEntryForm]
    next: int | None
    """`cursor` of the next page; null after the last"""


class HeadForm(TypedDict):
    """The newest entry."""

    seq: int
    hash: str


class FindingForm(TypedDict):
    """Something that is wrong with the chain."""

    seq: int
    text: str


class VerdictForm(TypedDict):
    """Whether the audit is as it was written."""

    whole: bool
    entries: int
    head: HeadForm | None
    findings: list[FindingForm]


def audit_page(
    database: Path, only: Mapping[str, str], cursor: int | None, limit: int
) -> AuditForm:
    """Return a page of the entries that have these values."""
    found = TrailReader(database).page(limit + 1, before=cursor, only=only)
    items: list[Any] = [entry.to_json() for entry in found[:limit]]
    return {"items": items, "next": items[-1]["seq"] if len(found) > limit else None}


def verdict_form(verdict: AuditVerdict) -> VerdictForm:
    """Return what a check of the whole chain found."""
    head = verdict.head
    return {
        "whole": verdict.whole,
        "entries": verdict.count,
        "head": None if head is None else {"seq": head.seq, "hash": head.hash},
        "findings": [{"seq": each.seq, "text": each.text} for each in verdict.findings],
    }


def checked(database: Path) -> VerdictForm:
    """Check the whole chain."""
    return verdict_form(TrailReader(database).verify())
