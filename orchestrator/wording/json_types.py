"""The types of single values in the JSON forms, with what their schemas say of them.

Must not know a form; what only names them for a type checker pays nothing for pydantic.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from lifecycle.machine.states import ALL, AgentState
from lifecycle.record import AttemptRow
from lifecycle.state_words import RECORD_STATES, spelled

_TEXT = {"type": "string"}
_KINDS = [state.__name__ for state in ALL]


def _one_of(*words: str) -> Any:
    return Field(json_schema_extra={"enum": list(words)})


def _tagged(*kinds: str) -> Any:
    kind: dict[str, Any] = {**_TEXT, "enum": list(kinds)} if kinds else _TEXT
    keys = {"kind": kind, "v": {"type": "integer", "minimum": 0}}
    return WithJsonSchema({"type": "object", "properties": keys, "required": list(keys)})


StateWord = Annotated[str, _one_of(*map(spelled, RECORD_STATES))]
"""The word for a state, as programs read it."""
RecordState = Annotated[str, _one_of(*AgentState)]
WorkState = Annotated[str, _one_of("", *_KINDS)]
"""The name of the machine's state; empty for a record that no loop drives."""
Stored = Annotated[dict[str, Any], _tagged()]
"""A fact or an order, as it is stored."""
StoredState = Annotated[dict[str, Any], _tagged(*_KINDS)]
Runner = Annotated[
    dict[str, Any],
    Field(description="pid, host, since, who; url and log where known; null if none is alive"),
]
Attempt = Annotated[dict[str, Any], AttemptRow]
"""An attempt of the ledger; its keys are the fields of `AttemptRow`, with `used` for `before`."""
