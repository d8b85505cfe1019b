"""JSON schemas of what Loopwright reads, and of what its commands print with --json.

All are made of the types themselves: of the models of what is read, and of the forms of what is
printed, which say which keys are promised; there may be more. The API describes its answers by the
same models.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import BaseModel, Field, TypeAdapter, create_model

from communication.model import mailbox_schema
from lifecycle.machine.events import AgentReport
from lifecycle.plan import Agent, Plan, Task
from lifecycle.record import AttemptRow, Used
from lifecycle.result import LoopResult
from lifecycle.settings import Settings
from orchestrator.config.field_docs import field_docs
from orchestrator.wording import json_types
from orchestrator.wording.json_forms import (
    EntryForm,
    ExportedForm,
    ImportForm,
    SummaryForm,
    WholeForm,
)
from orchestrator.wording.json_types import Attempt, Runner
from orchestrator.wording.lifecycle_row import LifecycleRow  # noqa: TC001  # hints are resolved here

if TYPE_CHECKING:
    from collections.abc import Callable

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXT = {"type": "string"}


class PsForm(TypedDict):
    """What `ps` prints."""

    lifecycles: list[LifecycleRow]
    next_cursor: int | None
    runner: Runner | None


class LostForm(TypedDict):
    """A record that cannot be read."""

    agent_id: str
    task_id: str
    problem: str


class ExportForm(TypedDict):
    """What `export` writes."""

    form: int
    loopwright: str
    exported_at: float
    lifecycles: list[ExportedForm]
    damaged: list[LostForm]
    bundle: str | None
    """the file beside it that holds its commits"""


class ShowForm(WholeForm):
    """What `show` prints."""

    opinion: dict[str, Any] | None
    """what a reviewer said last, and of which commit; null if none was asked"""
    comes_along: list[dict[str, Any]]
    merged_as: str | None
    resolution: dict[str, list[str]]


class TasksForm(TypedDict):
    """What `tasks import` read."""

    dry_run: bool
    form: str
    """what kind of list it is"""
    branch: str
    """the branch that the list names for its work, or nothing"""
    plan: str
    """the plan that they are for"""
    tasks: list[dict[str, Any]]
    """as a plan has them"""
    known: list[str]
    """ids of those that are in the plan already"""
    left_out: dict[str, int]
    """how many are not taken, by why: done, cancelled"""


class LogsForm(TypedDict):
    """What `logs` prints."""

    agent_id: str
    attempt: int
    gate: int | None
    path: str
    text: str


class ComparedForm(SummaryForm, total=False):
    """What `summary` prints."""

    against: int | None
    diff: str


class CheckedForm(TypedDict):
    """One finding of `doctor`."""

    level: Literal["ok", "warn", "bad"]
    what: str
    found: str
    mend: str


class EffectiveForm(TypedDict):
    """A setting and its source."""

    name: str
    value: Any
    source: str


class DoctorForm(TypedDict):
    """What `doctor` prints."""

    checks: list[CheckedForm]
    next: str
    """What to do first; empty when a run can begin."""
    settings: list[EffectiveForm]


def schema(name: str, form: type | None = None) -> dict[str, Any]:
    """Return a schema by its name; of a form that is not listed here, by the form."""
    made = _printed(form) if form is not None else SCHEMAS[name]
    return {"$schema": DRAFT, **made(), "title": name}


@cache
def model_of(form: type) -> type[BaseModel]:
    """Return the model of a form, for what describes it; the text below a field explains it."""
    known = globals() | vars(json_types) | {"Report": AgentReport}
    hints = {
        name: _modelled(hint)
        for name, hint in get_type_hints(form, localns=known, include_extras=True).items()
    }
    if form is AttemptRow:
        del hints["before"]
        hints["used"] = model_of(Used)
    texts = field_docs(form)
    optional = getattr(form, "__optional_keys__", ())
    fields: dict[str, Any] = {
        name: (hint, Field(None if name in optional else ..., description=texts.get(name)))
        for name, hint in hints.items()
    }
    made: type[BaseModel] = create_model(
        "Attempt" if form is AttemptRow else form.__name__.removesuffix("Form"),
        __doc__=form.__doc__,
        **fields,
    )
    return made


def _modelled(hint: Any) -> Any:
    if is_typeddict(hint):
        return model_of(hint)
    if hint == Attempt:
        return model_of(AttemptRow)
    if get_origin(hint) is UnionType:
        return reduce(or_, map(_modelled, get_args(hint)))
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        return list[_modelled(item)]  # type: ignore[misc]  # made at run time
    return hint


def _printed(form: type) -> Callable[[], dict[str, Any]]:
    return lambda: model_of(form).model_json_schema(mode="serialization")


def _events() -> dict[str, Any]:
    entries: Any = list[model_of(EntryForm)]  # type: ignore[misc]  # as above
    return TypeAdapter(entries).json_schema(mode="serialization")


def _plan() -> dict[str, Any]:
    made = Plan.model_json_schema()
    for model in (Task, Agent):
        _describe(made["$defs"][model.__name__]["properties"], model)
    _describe(made["properties"], Plan)
    # In a file an agent is a template: each task gives it an id of its own.
    made["$defs"]["Agent"].pop("required", None)
    return made


def _settings() -> dict[str, Any]:
    made = Settings.model_json_schema()
    properties = made["properties"]
    for name, each in properties.items():
        if each.get("type") == "array":
            # A file may give a text instead: a command's words, or one verify command per line.
            properties[name] = {"anyOf": [each, _TEXT], "default": each.get("default")}
    _describe(properties, Settings)
    return made


def _describe(properties: dict[str, Any], model: type) -> None:
    for name, text in field_docs(model).items():
        properties[name]["description"] = text


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "plan": _plan,
    "settings": _settings,
    "communications": mailbox_schema,
    "result": _printed(LoopResult),
    "export": _printed(ExportForm),
    "import": _printed(ImportForm),
    "tasks": _printed(TasksForm),
    "ps": _printed(PsForm),
    "show": _printed(ShowForm),
    "events": _events,
    "logs": _printed(LogsForm),
    "summary": _printed(ComparedForm),
    "doctor": _printed(DoctorForm),
}
"""By name: the files that are read, and the output of the commands."""
