"""A file to import is data from elsewhere: what is wrong with it is named, with its place."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.machine.states import Queued
from orchestrator.terminal.text import to_json
from orchestrator.transfer.document import ImportRefusedError, read_export
from orchestrator.wording.json_forms import FORM_VERSION, export_form
from tests.orchestrator.transfer.stored import FIRST, set_at, stored_of

if TYPE_CHECKING:
    from pathlib import Path

BAD = {
    "no export": (set_at("form", to=None), "is not an export of Loopwright"),
    "newer": (set_at("form", to=99), "newer version"),
    "unknown state": (set_at(*FIRST, "record", "work", "kind", to="Dreaming"), "newer version"),
    "not a record": (set_at(*FIRST, "record", to=[]), "lifecycle 1 has no record"),
    "older form": (lambda whole: whole["lifecycles"][0].pop("refs"), "export it with this version"),
    "contradiction": (set_at(*FIRST, "record", "record_state", to="running"), "set only `work`"),
    "gap": (set_at(*FIRST, "journal", 0, "seq", to=3), "its journal has gaps"),
    "path as id": (set_at(*FIRST, "record", "agent_id", to="../../x"), "is not a usable id"),
    "foreign document": (
        set_at(*FIRST, "documents", 0, "collection", to="settings.approved"),
        "belong to no lifecycle",
    ),
    "foreign ref": (
        set_at(*FIRST, "refs", to={"refs/heads/main": "0" * 40}),
        "is no ref of this agent",
    ),
    "ref with a line break": (
        set_at(*FIRST, "refs", to={"refs/loopwright/saved/agent-1/1\ndelete refs/x": "0" * 40}),
        "is no ref of this agent",
    ),
    "twice": (lambda whole: whole["lifecycles"].append(whole["lifecycles"][0]), "more than once"),
    "bundle elsewhere": (set_at("bundle", to="../x"), "name of a file beside it"),
    "bundle missing": (set_at("bundle", to="x.bundle"), "x.bundle is missing"),
    "effect id of another": (
        set_at(*FIRST, "pending", 0, "effect_id", to="agent-0.1.1"),
        "'agent-0.1.1' is no order of this lifecycle",
    ),
    "document of another": (
        set_at(*FIRST, "documents", 0, "key", to="agent-0"),
        "'agent-0' in 'canaries' is of another lifecycle",
    ),
    "task that nobody waits for": (
        set_at(*FIRST, "documents", to=[{"collection": "retired_tasks", "key": "T7", "body": {}}]),
        "'T7' in 'retired_tasks' is of another lifecycle",
    ),
    "branch of another": (
        set_at(*FIRST, "record", "facts", "branch", to="main"),
        "'main' is no branch of this agent",
    ),
    "option as a base": (
        set_at(*FIRST, "record", "facts", "base_branch", to="--upload-pack=touch x"),
        "is no name of a branch",
    ),
    "edited at no number": (set_at(*FIRST, "edited", to={"\u00b2": "x"}), "numbers of attempts"),
    "text that is none": (set_at(*FIRST, "edited", to={"1": "\ud800"}), "surrogates not allowed"),
    "version beyond all": (set_at(*FIRST, "record", "version", to=1 << 70), "is too large"),
    "cost below nothing": (
        set_at(*FIRST, "spendings", 0, "cost_usd", to=-1000.0),
        "below nothing",
    ),
    "damaged are no list": (set_at("damaged", to=[7]), "`damaged` must"),
}


def whole() -> Any:
    stored = stored_of(1, Queued())
    stored = replace(stored, record=replace(stored.record, version=1))
    form = export_form(stored, runs=False, edited={"1": "Mine."}, refs={})
    return {"form": FORM_VERSION, "loopwright": "1", "lifecycles": [json.loads(to_json(form))]}


def written(folder: Path, change: Any) -> Path:
    given, file = whole(), folder / "all.json"
    change(given)
    file.write_text(json.dumps(given))
    return file


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named(tmp_path: Path, case: str) -> None:
    change, said = BAD[case]
    with pytest.raises(ImportRefusedError, match=re.escape(said)):
        read_export(written(tmp_path, change))


@pytest.mark.parametrize("kind", ["journal", "attempts", "pending", "requests", "spendings"])
def test_rows_are_of_the_lifecycle_that_they_stand_in(tmp_path: Path, kind: str) -> None:
    file = written(tmp_path, set_at(*FIRST, kind, 0, "agent_id", to="agent-0"))
    (given,) = read_export(file).lifecycles
    assert [each.agent_id for each in getattr(given.stored, kind)] == ["agent-1"]
