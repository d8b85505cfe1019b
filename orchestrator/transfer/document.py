"""Reads what `loopwright export` wrote: lifecycles from another store, as values of ours.

Owns what is wrong with such a file, in words. Must not change anything.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from lifecycle import mask_values
from lifecycle.errors import StoreError, StoreFromNewerVersionError
from lifecycle.json_form import decode
from lifecycle.plan import Agent, Task, checked_name
from lifecycle.record import (
    AgentLifecycle,
    AttemptRow,
    JournalEntry,
    OperatorRequest,
    PendingEffect,
    Spending,
    agent_of,
    mark_of,
)
from lifecycle.store.rows.records import check_state
from lifecycle.store.transfers import LifecycleDocument, StoredLifecycle
from orchestrator.errors import OrchestratorError
from orchestrator.transfer.belongings import COLLECTIONS, belongs
from orchestrator.wording.json_forms import FORM_VERSION, HIDDEN
from runtime.git.ownership import BASE_REFS, BRANCH_REFS, SAVED_REFS
from runtime.git.porcelain import SHA

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
_SAVED = re.compile(r"(?P<agent>[A-Za-z0-9._-]+)/[A-Za-z0-9._-]+")
_ATTEMPT = re.compile(r"[0-9]{1,9}")
_BRANCHES = BRANCH_REFS.removeprefix("refs/heads/")
_BRANCH = re.compile(r"(?!-)[^\x00-\x20\x7f~^:?*\[\\]{1,1000}")
_MOST = (1 << 63) - 1
"""The largest number that SQLite takes."""
_NEWER = "is of a newer version of Loopwright; import it with that one, or a later one"


class ImportRefusedError(OrchestratorError):
    """A file cannot be imported; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedLifecycle:
    """One lifecycle of a file."""

    stored: StoredLifecycle
    live: bool
    edited: Mapping[str, str]
    refs: Mapping[str, str]

    @property
    def agent_id(self) -> str:
        """The id under which it goes on."""
        return self.stored.record.agent_id

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of variables of its agent whose values do not travel."""
        env = (self.stored.record.facts.get("agent") or {}).get("env") or {}
        return tuple(name for name, value in env.items() if value == mask_values.HIDDEN)


@dataclass(frozen=True, slots=True)
class ExportFile:
    """What a file holds."""

    lifecycles: tuple[ExportedLifecycle, ...]
    bundle: Path | None
    """The commits that came with it."""
    damaged: tuple[str, ...]
    """Agents whose records could not be read where it was written."""


def read_export(path: Path) -> ExportFile:
    """Read a file; ImportRefusedError says what is wrong with it, and where."""
    whole = _object(path)
    form, by = whole.get("form"), whole.get("loopwright", "?")
    if not isinstance(form, int) or not isinstance(whole.get("lifecycles"), list):
        raise ImportRefusedError(
            f"{path} is not an export of Loopwright: write one with `loopwright export --all "
            "--output FILE`"
        )
    if form > FORM_VERSION:
        raise ImportRefusedError(f"{path} (form {form}, by version {by}) {_NEWER}")
    found = tuple(
        _lifecycle(f"{path}, lifecycle {number}", each, by)
        for number, each in enumerate(whole["lifecycles"], start=1)
    )
    ids = [each.agent_id for each in found]
    if doubled := sorted({each for each in ids if ids.count(each) > 1}):
        raise ImportRefusedError(f"{path} holds {', '.join(doubled)} more than once")
    return ExportFile(found, _bundle(path, whole.get("bundle")), _damaged(path, whole))


def _object(path: Path) -> dict[str, Any]:
    try:
        whole = json.loads(
            path.read_text("utf-8"), parse_int=_whole, parse_float=_float, parse_constant=_float
        )
    except (ValueError, RecursionError) as problem:
        raise ImportRefusedError(
            f"{path} is not valid JSON ({problem}); was it written to its end?"
        ) from problem
    return whole if isinstance(whole, dict) else {}


def _whole(text: str) -> int:
    """Return a number that a database can hold."""
    if abs(number := int(text)) > _MOST:
        raise ValueError(f"the number {text[:30]} is too large")
    return number


def _float(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError(f"{text[:30]} is no finite number")
    return number


def _damaged(path: Path, whole: dict[str, Any]) -> tuple[str, ...]:
    given = whole.get("damaged") or []
    if not (isinstance(given, list) and all(isinstance(each, dict) for each in given)):
        raise ImportRefusedError(f"{path}: `damaged` must be a list of objects")
    return tuple(str(each.get("agent_id")) for each in given)


def _bundle(path: Path, name: object) -> Path | None:
    if name is None:
        return None
    if not isinstance(name, str) or PurePath(name).name != name:
        raise ImportRefusedError(f"{path}: `bundle` must be the name of a file beside it")
    bundle = path.with_name(name)
    if not bundle.is_file():
        raise ImportRefusedError(f"{bundle} is missing: it came with {path}; copy it there, too")
    return bundle


def _lifecycle(where: str, given: Any, by: object) -> ExportedLifecycle:
    if not isinstance(given, dict) or not isinstance(given.get("record"), dict):
        raise ImportRefusedError(f"{where} has no record: export it again")
    agent_id = given["record"].get("agent_id")
    where = f"{where} ({agent_id})"
    if "birth" not in given["record"] or "refs" not in given:
        raise ImportRefusedError(
            f"{where} was written by version {by}, which leaves out what is needed to go on: "
            "export it with this version"
        )
    try:
        json.dumps(given, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return ExportedLifecycle(
            stored=_stored(agent_id, given),
            live=bool(given["live"]),
            edited=_texts(given["edited"]),
            refs=_refs(agent_id, given["refs"]),
        )
    except StoreFromNewerVersionError as problem:
        raise ImportRefusedError(f"{where} {_NEWER} ({problem})") from problem
    except (StoreError, AttributeError, KeyError, TypeError, ValueError) as problem:
        said = f"{type(problem).__name__}: {problem}"
        raise ImportRefusedError(
            f"{where} cannot be read ({said}): export it again, and do not change the file"
        ) from problem


def _stored(agent_id: str, given: dict[str, Any]) -> StoredLifecycle:
    record = _record(given["record"])
    if record.agent_id not in (agent_of(agent_id), record.earlier_id):
        raise ValueError(f"{agent_id!r} is neither an agent nor an earlier lifecycle of it")
    whose = {"agent_id": agent_id}
    stored = StoredLifecycle(
        record=record,
        journal=tuple(_made(JournalEntry, {**each, **whose}) for each in given["journal"]),
        attempts=tuple(_made(AttemptRow, {**each, **whose}) for each in given["attempts"]),
        pending=tuple(_made(PendingEffect, {**each, **whose}) for each in given["pending"]),
        requests=tuple(
            _made(OperatorRequest, {**each, **whose, "request_id": 0}) for each in given["requests"]
        ),
        spendings=tuple(
            _made(Spending, {**each, **whose, "birth": record.birth}) for each in given["spendings"]
        ),
        documents=tuple(_made(LifecycleDocument, each) for each in given["documents"]),
    )
    if [each.seq for each in stored.journal] != list(range(1, len(stored.journal) + 1)):
        raise ValueError("its journal has gaps")
    _check_owned(stored)
    return stored


def _check_owned(stored: StoredLifecycle) -> None:
    """Refuse what would be written under the name of another lifecycle, or count below nothing."""
    record = stored.record
    for document in stored.documents:
        if document.collection not in COLLECTIONS:
            raise ValueError(f"documents of {document.collection!r} belong to no lifecycle")
        if not belongs(document, record):
            raise ValueError(f"{document.key!r} in {document.collection!r} is of another lifecycle")
    mark = mark_of(record.agent_id, record.birth)
    for order in stored.pending:
        if not order.effect_id.startswith(mark):
            raise ValueError(f"{order.effect_id!r} is no order of this lifecycle")
    for spending in stored.spendings:
        used = spending.spent
        if min(used.tokens, used.cost_usd, used.seconds) < 0:
            raise ValueError(f"attempt {spending.attempt} used what is below nothing")


def _check_place(record: AgentLifecycle) -> None:
    """Refuse facts that lead to branches which are not this agent's."""
    branch, base, commit = (
        record.facts.get(name) or "" for name in ("branch", "base_branch", "base_commit")
    )
    if branch not in ("", _BRANCHES + agent_of(record.agent_id)):
        raise ValueError(f"{branch!r} is no branch of this agent")
    if base and not _BRANCH.fullmatch(base):
        raise ValueError(f"{base!r} is no name of a branch")
    if commit and not SHA.fullmatch(commit):
        raise ValueError(f"{commit!r} is no commit")


def _record(given: dict[str, Any]) -> AgentLifecycle:
    """Return the record; what was hidden of its agent's variables is as if it was never kept."""
    record = _made(AgentLifecycle, given | {"state": given["record_state"]})
    checked_name(agent_of(record.agent_id))
    checked_name(record.birth)
    if record.version < 1:
        raise ValueError("its version is below 1")
    check_state(record)
    _check_place(record)
    if record.work is None:
        return record
    Task.model_validate(record.facts["task"])
    agent = dict(record.facts["agent"])
    env = agent.get("env") or {}
    agent["env"] = {
        name: mask_values.HIDDEN if value == HIDDEN else value for name, value in env.items()
    }
    Agent.model_validate(agent)
    return replace(record, facts={**record.facts, "agent": agent})


def _made(of: type[T], given: dict[str, Any]) -> T:
    return decode(of, json.dumps(given))


def _texts(given: dict[str, Any]) -> dict[str, str]:
    if not all(_ATTEMPT.fullmatch(name) and isinstance(text, str) for name, text in given.items()):
        raise ValueError("`edited` must hold texts by the numbers of attempts")
    return dict(given)


def _refs(agent_id: str, given: dict[str, Any]) -> dict[str, str]:
    own = (BRANCH_REFS + agent_id, BASE_REFS + agent_id)
    for ref, commit in given.items():
        saved = ref.startswith(SAVED_REFS) and _SAVED.fullmatch(ref.removeprefix(SAVED_REFS))
        theirs = saved and saved["agent"] == agent_id and ".." not in ref
        if not (ref in own or theirs) or not SHA.fullmatch(str(commit)):
            raise ValueError(f"{ref!r} at {commit!r} is no ref of this agent")
    return dict(given)
