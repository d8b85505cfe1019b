"""What `loopwright settings` does: reads all that holds agents, and takes over what waits."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lifecycle.audit import Audit
from lifecycle.clock import SystemClock
from lifecycle.errors import PlanError
from lifecycle.paths import Paths
from lifecycle.store.plain_queries import read_documents
from orchestrator.approval.agent_commits import APPROVE, named
from orchestrator.approval.approvals import Approvals
from orchestrator.approval.records import PROPOSED
from orchestrator.approval.restricting_values import PLAN_FILES, WHOLE, name_of
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.plans import load_plan
from orchestrator.config.settings import explain_settings
from orchestrator.control.open_store import store_of
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.approval.approvals import HeldValue
    from orchestrator.config.settings import SettingRow
    from runtime.masking.masker import Masker

Refusals = dict[str, dict[str, Any]]
REFUSED = "settings.refused"
"""Collection of the changes that a person refused, by the id of each."""


def read(repo: Path, environ: Mapping[str, str]) -> tuple[list[SettingRow], Approvals]:
    """Return every setting, and what of settings, plans and named files waits."""
    approvals = Approvals(repo)
    rows = explain_settings(repo, environ=environ, approvals=approvals)
    plans = [repo / file for file in (*PLAN_FILES, *approvals.plans_known())]
    for path in dict.fromkeys(plans):
        with suppress(PlanError):  # one that cannot be read is refused by who runs it
            if path.is_file():
                load_plan(path, approvals)
    return rows, approvals


def waiting(repo: Path, environ: Mapping[str, str]) -> str:
    """Say in one line what waits for a person; nothing when nothing does."""
    try:
        _, approvals = read(repo, environ)
    except ConfigError:
        return ""  # the command that runs something reports it
    return told(approvals, refused_in(repo))


def told(approvals: Approvals, refused: Collection[str] = ()) -> str:
    """Say in one line what of a reading waits; nothing when nothing does."""
    held = undecided(approvals, refused)
    if not held:
        return ""
    return f"Not in force yet, because an agent changed it: {named(held)}; {APPROVE}"


def undecided(approvals: Approvals, refused: Collection[str]) -> dict[str, HeldValue]:
    """Return what is held and was not refused by a person (`refused` are ids)."""
    return {cell: each for cell, each in approvals.held.items() if id_of(each) not in refused}


def refused_in(repo: Path) -> Refusals:
    """Return which changes a person refused, read beside a live runner."""
    return read_documents(Paths.of(repo).database, REFUSED)


async def note(repo: Path, environ: Mapping[str, str], by: str) -> None:
    """Record what counts and what waits before something is merged, if no runner has done so."""
    if not Paths.of(repo).database.exists():
        return
    with suppress(ConfigError):  # it is merged all the same; a runner reports it
        _, approvals = read(repo, environ)
        if approvals.first or approvals.held:
            await keep(repo, environ, approvals, by)


async def keep(repo: Path, environ: Mapping[str, str], approvals: Approvals, by: str) -> None:
    """Record what counts in a reading, and what waits."""
    async with store_of(repo) as store:
        now, masker = SystemClock().now(), masker_of(environ)
        await approvals.keep(store, by=by, at=now, masker=masker)


async def approve(repo: Path, approvals: Approvals, by: str, cells: Collection[str]) -> None:
    """Take over what waits in some cells, as it was read."""
    masker, now = masker_of(os.environ), SystemClock().now
    async with store_of(repo) as store:
        audit = Audit(store.trail, now=now, masker=masker)
        await take_over(store, audit, approvals, cells, by=by, at=now(), masker=masker)


async def leave_out(
    repo: Path, approvals: Approvals, cells: Collection[str], by: str, why: str
) -> None:
    """Leave changes that wait out of force for good."""
    now = SystemClock().now
    async with store_of(repo) as store:
        audit = Audit(store.trail, now=now, masker=masker_of(os.environ))
        await refuse(store, audit, approvals, cells, by=by, at=now(), why=why)


async def take_over(  # noqa: PLR0913  # the last by name
    store: SqliteStore,
    audit: Audit,
    approvals: Approvals,
    cells: Collection[str],
    *,
    by: str,
    at: float,
    masker: Masker,
) -> None:
    """Put the changes that wait in some cells into force."""
    await approvals.keep(store, by=by, at=at, masker=masker, waiting=cells)
    files = {name_of(cell)[0] for cell in cells}
    for key, body in (await store.all(PROPOSED)).items():
        file, name = name_of(str(body.get("cell", "")))
        if name == WHOLE and file in files:  # now a person knows what the file holds
            await store.put(PROPOSED, key, {**body, "settled": True})
    for cell in cells:
        await _enter(audit, approvals.held[cell], by, "approved")


async def refuse(  # noqa: PLR0913  # the last by name
    store: SqliteStore,
    audit: Audit,
    approvals: Approvals,
    cells: Collection[str],
    *,
    by: str,
    at: float,
    why: str,
) -> None:
    """Note that changes stay out of force: they are shown as refused, and wait no more."""
    for cell in cells:
        held = approvals.held[cell]
        await store.put(REFUSED, id_of(held), {"by": by, "at": at, "why": why})
        await _enter(audit, held, by, "refused", why)


def change_of(held: HeldValue) -> str:
    """Say what a change makes of what."""
    before, after = held.approved, held.value
    if isinstance(before, list) and before and isinstance(after, list) and _is_text(after):
        return "another content"
    return f"{shown(before)} becomes {shown(after)}"


def sentence(held: HeldValue) -> str:
    """Say what was changed, where, and by whose work."""
    place = held.cell.rpartition("#")[0]
    return f"{held.name} in {place}, changed by the work of {held.agent_id}: {change_of(held)}"


def shown(value: object) -> str:
    """Return a value of a setting for people."""
    return "(not set)" if value is None else json.dumps(value, default=str)


def _is_text(value: list[object]) -> bool:
    digits = 16
    return all(isinstance(each, str) and len(each) == digits for each in value)


async def refusals(store: SqliteStore) -> Refusals:
    """Return which changes a person refused, by the id of each."""
    return await store.all(REFUSED)


def id_of(held: HeldValue) -> str:
    """Return what tells this change of this value from others."""
    text = json.dumps([held.cell, held.value, held.approved], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def _enter(audit: Audit, held: HeldValue, by: str, outcome: str, why: str = "") -> None:
    change = held.to_json()
    details = {"file": change["file"], "from": change["approved"], "to": change["value"]}
    reason = f"in {change['file']}, by the work of {held.agent_id}"
    said = f"{reason}: {why}" if why else reason
    await audit.record("setting", by, held.name, outcome, said, details=details)
