"""What an agent's entry in communications.json holds.

Owns the models and which combinations are valid. Strict where a breakpoint could be misread, loose
where text is only shown to people and other agents. It must not do I/O.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from communication import words
from communication.words import BreakpointType

__all__ = ["Breakpoint", "BreakpointType", "MailboxEntry", "explain", "mailbox_schema"]

_FAULTS_NAMED = 3


def _nothing_if_blank(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _blank_if_null(value: Any) -> Any:
    return "" if value is None else value


def _none_if_null(value: Any) -> Any:
    return {} if value is None else value


Text = Annotated[str, BeforeValidator(_blank_if_null, json_schema_input_type=str | None)]
Identity = Annotated[str | None, BeforeValidator(_nothing_if_blank)]
Words = Annotated[
    tuple[str, ...],
    BeforeValidator(words.one_or_many, json_schema_input_type=str | list[str] | None),
]
LooseText = Annotated[str, BeforeValidator(words.text, json_schema_input_type=str | None)]
LooseTexts = Annotated[
    tuple[str, ...],
    BeforeValidator(words.texts, json_schema_input_type=str | list[str] | None),
]
Requests = Annotated[
    tuple[tuple[str, str], ...],
    BeforeValidator(
        words.requests, json_schema_input_type=list[tuple[str, str] | str] | str | None
    ),
]
Replies = Annotated[
    dict[str, str],
    BeforeValidator(_none_if_null, json_schema_input_type=dict[str, str] | None),
]
Deliveries = Annotated[
    tuple[tuple[str, str, str], ...],
    BeforeValidator(
        words.deliveries, json_schema_input_type=list[tuple[str, str, str] | str] | str | None
    ),
]


class Breakpoint(BaseModel):
    """The signal with which an agent ends its attempt."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: BreakpointType
    task_id: Identity = Field(None, description="The task this is about; must match if given.")
    summary: Text = Field("", description="What was done, for the next attempt and for people.")
    blocked_on: Words = Field((), description="Task ids or free words; a single text will do.")
    reason: Text = Field("", description="Why it is blocked.")
    pr_url: Identity = Field(None, description="The pull request that was created.")
    question: Text = Field("", description="What a person must answer.")
    replies: Replies = Field(
        default_factory=dict,
        description="Answers to reviewers: by the id of a remark, as the summary names it.",
    )
    spawn_id: Identity = Field(None, description="LOOPWRIGHT_SPAWN_ID; must match if given.")
    seq: int | None = Field(None, description="Counts the breakpoints of one attempt.")

    @model_validator(mode="after")
    def _says_enough(self) -> Breakpoint:
        lacking = words.shortfall(
            self.type, blocked_on=self.blocked_on, reason=self.reason, question=self.question
        )
        lacking = lacking or words.bad_replies(self.type, self.replies)
        if lacking:
            raise ValueError(lacking)
        return self


class MailboxEntry(BaseModel):
    """What one agent says: its breakpoint, and free words for people and other agents."""

    model_config = ConfigDict(frozen=True, extra="allow")

    lifecycle_state: str | None = Field(
        None, description="Must fit breakpoint.type if both are given."
    )
    breakpoint: Breakpoint | None = None
    mission: LooseText = ""
    working_on: LooseText = ""
    done: LooseTexts = ()
    next: LooseTexts = ()
    requests: Requests = Field((), description="To other agents: [to, text] each.")
    added: Deliveries = Field((), description="From other agents: [from, text, original] each.")

    @model_validator(mode="after")
    def _state_fits_breakpoint(self) -> MailboxEntry:
        if self.breakpoint is not None:
            clash = words.contradiction(self.lifecycle_state, self.breakpoint.type)
            if clash:
                raise ValueError(clash)
        return self


def explain(error: ValidationError) -> str:
    """Say in one line what is wrong with an entry."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    said = [
        ": ".join(filter(None, (".".join(map(str, fault["loc"])), _plain(fault["msg"]))))
        for fault in faults[:_FAULTS_NAMED]
    ]
    return "; ".join(said)


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")


def mailbox_schema() -> dict[str, Any]:
    """Build the JSON schema of a whole communications.json."""
    entry = MailboxEntry.model_json_schema()
    definitions = entry.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "communications.json",
        "description": "One entry per agent id; `_meta` and unknown keys are kept as they are.",
        "type": "object",
        "properties": {"_meta": {"description": "Free for the file's owner; never read."}},
        "additionalProperties": {"$ref": "#/$defs/MailboxEntry"},
        "$defs": {**definitions, "MailboxEntry": entry},
    }
