"""JSON schemas of what Loopwright reads and of what its commands print with --json.

Schemas of what is read come from the models themselves. Those of what is printed say which keys
are promised; there may be more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from communication.schema import mailbox_schema
from lifecycle.machine.states import ALL, Coarse
from lifecycle.plan import Agent, Plan, Task
from lifecycle.result import LoopResultType
from lifecycle.settings import Settings
from lifecycle.state_words import RECORD_STATES, spelled
from orchestrator.fielddocs import field_docs

if TYPE_CHECKING:
    from collections.abc import Callable

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXT = {"type": "string"}
_MAYBE_TEXT = {"type": ["string", "null"]}
_NUMBER = {"type": "number"}
_MAYBE_NUMBER = {"type": ["number", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_MAYBE_COUNT = {"type": ["integer", "null"]}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_COARSE = {"enum": [state.value for state in Coarse]}
_STATE = {"enum": [spelled(word) for word in RECORD_STATES]}
_KINDS = [state.__name__ for state in ALL]


def schema(name: str) -> dict[str, Any]:
    """Return a schema by its name."""
    made = SCHEMAS[name]()
    return {"$schema": DRAFT, "title": name, **made}


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


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _tagged(kinds: list[str] | None = None) -> dict[str, Any]:
    kind: dict[str, Any] = {"enum": kinds} if kinds else _TEXT
    return {**_object(kind=kind, v=_COUNT), "additionalProperties": True}


def _result() -> dict[str, Any]:
    return _object(
        result_type={"enum": [kind.value for kind in LoopResultType]},
        task_id=_TEXT,
        agent_id=_TEXT,
        summary=_TEXT,
        blocked_on=_TEXTS,
        pr_url=_MAYBE_TEXT,
        error=_MAYBE_TEXT,
        spawn_count=_COUNT,
        retry_count=_COUNT,
    )


def _record() -> dict[str, Any]:
    return _object(
        agent_id=_TEXT,
        task_id=_TEXT,
        task=_TEXT,
        state=_STATE,
        record_state=_COARSE,
        work={"oneOf": [{"type": "null"}, _tagged(_KINDS)]},
        created_at=_NUMBER,
        updated_at=_NUMBER,
        submission_summary=_MAYBE_TEXT,
        generated_code=_MAYBE_TEXT,
        changed_files={"oneOf": [{"type": "null"}, _TEXTS]},
        error=_MAYBE_TEXT,
        tags=_TEXTS,
        facts={"type": "object"},
        version=_COUNT,
        cursor=_COUNT,
    )


def _entry() -> dict[str, Any]:
    return _object(
        seq=_COUNT, at=_NUMBER, event=_tagged(), rule=_TEXT, before=_TEXT, after=_TEXT, late=_FLAG
    )


def _attempt() -> dict[str, Any]:
    return _object(
        agent_id=_TEXT,
        attempt=_COUNT,
        spawn_id=_TEXT,
        pid=_COUNT,
        started_at=_NUMBER,
        ended_at=_MAYBE_NUMBER,
        outcome=_TEXT,
        summary=_TEXT,
        error=_TEXT,
        exit_code=_MAYBE_COUNT,
        signal=_MAYBE_COUNT,
        head_before=_TEXT,
        head_after=_TEXT,
        changed_files=_COUNT,
        commits=_COUNT,
        saved_ref=_TEXT,
        swept=_COUNT,
        program=_TEXT,
        report={"type": ["object", "null"], "description": "what the agent's program told of it"},
        used=_object(
            tokens=_COUNT,
            input_tokens=_COUNT,
            output_tokens=_COUNT,
            cached_tokens=_COUNT,
            cost_usd=_MAYBE_NUMBER,
            seconds=_NUMBER,
        ),
    )


def _pending() -> dict[str, Any]:
    return _object(effect_id=_TEXT, effect=_tagged())


def _runner() -> dict[str, Any]:
    return {"type": ["object", "null"], "description": "pid, host, since; null if none is alive"}


def _export() -> dict[str, Any]:
    one = _object(
        record=_record(),
        journal=_list(_entry()),
        attempts=_list(_attempt()),
        pending=_list(_pending()),
    )
    lost = _object(agent_id=_TEXT, task_id=_TEXT, problem=_TEXT)
    return _object(
        form=_COUNT,
        loopwright=_TEXT,
        exported_at=_NUMBER,
        lifecycles=_list(one),
        damaged=_list(lost),
    )


def _ps() -> dict[str, Any]:
    row = _object(
        agent_id=_TEXT,
        task_id=_TEXT,
        task=_TEXT,
        state=_STATE,
        record_state=_COARSE,
        work_state={"enum": ["", *_KINDS]},
        attempt=_COUNT,
        retry_count=_COUNT,
        spawn_count=_COUNT,
        created_at=_NUMBER,
        updated_at=_NUMBER,
        since=_NUMBER,
        waiting_for=_TEXT,
        tags=_TEXTS,
        error=_MAYBE_TEXT,
        cursor=_COUNT,
        damaged={**_TEXT, "description": "what is wrong with a record that cannot be read"},
    )
    return _object(lifecycles=_list(row), next_cursor=_MAYBE_COUNT, runner=_runner())


def _show() -> dict[str, Any]:
    return _object(
        lifecycle=_record(),
        why=_TEXT,
        attempts=_list(_attempt()),
        pending=_list(_pending()),
        runner=_runner(),
        files={"type": "object", "additionalProperties": _TEXT},
    )


def _events() -> dict[str, Any]:
    return _list(_entry())


def _logs() -> dict[str, Any]:
    return _object(agent_id=_TEXT, attempt=_COUNT, gate=_MAYBE_COUNT, path=_TEXT, text=_TEXT)


def _summary() -> dict[str, Any]:
    made = _object(agent_id=_TEXT, attempt=_COUNT, path=_MAYBE_TEXT, edited=_FLAG, text=_TEXT)
    with_diff = {"against": _MAYBE_COUNT, "diff": _TEXT}
    return {**made, "properties": {**made["properties"], **with_diff}}


def _doctor() -> dict[str, Any]:
    check = _object(level={"enum": ["ok", "warn", "bad"]}, what=_TEXT, found=_TEXT, mend=_TEXT)
    setting = _object(name=_TEXT, value={}, source=_TEXT)
    return _object(checks=_list(check), settings=_list(setting))


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "plan": _plan,
    "settings": _settings,
    "communications": mailbox_schema,
    "result": _result,
    "export": _export,
    "ps": _ps,
    "show": _show,
    "events": _events,
    "logs": _logs,
    "summary": _summary,
    "doctor": _doctor,
}
"""By name: the files that are read, and the output of the commands."""
