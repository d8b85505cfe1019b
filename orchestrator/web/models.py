"""The forms of questions and answers, as /openapi.json tells them.

Requests are checked by them. Answers are not: those are made by `orchestrator.forms`, and a test
holds the two together.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID  # noqa: TC003  # pydantic reads it at run time

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lifecycle.machine.states import ALL
from lifecycle.machine.states import Coarse as CoarseState
from lifecycle.state_words import RECORD_STATES, meant, spelled

Coarse = CoarseState
StateWord = StrEnum("StateWord", {spelled(word): spelled(word) for word in RECORD_STATES})  # type: ignore[misc]  # made of the one table of words
MeantWord = Annotated[StateWord, BeforeValidator(lambda text: spelled(meant(str(text))) or text)]
"""A word as a person may spell it."""
WorkState = StrEnum("WorkState", {each.__name__: each.__name__ for each in ALL})  # type: ignore[misc]  # made of the machine's own list
Text = Annotated[str, Field(max_length=100_000, pattern=r"^[^\x00]*$")]
_SOMETHING = r"^[^\x00]*[^\s\x00][^\x00]*$"
_ONE_LINE = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
Words = Annotated[str, Field(min_length=1, max_length=100_000, pattern=_SOMETHING)]
Line = Annotated[str, Field(min_length=1, max_length=4096, pattern=_ONE_LINE)]
Wait = Annotated[
    float,
    Field(
        10.0, ge=0, le=60, allow_inf_nan=False, description="seconds to wait for it to take effect"
    ),
]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False)


class _Told(BaseModel):
    model_config = ConfigDict(extra="allow")


# --- what is asked --------------------------------------------------------------------------


class Submission(_Asked):
    """One more task, with an agent of its own."""

    text: Words = Field(description="what is to be done")
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)] | None = (
        Field(None, description="the agent's id; _1, _2 follow when taken")
    )
    agent: Line | None = Field(None, description="a known agent program, such as claude")
    command: Line | None = Field(None, description="any program that reads its prompt")
    verify: list[Line] = Field([], max_length=100, description="must succeed before it counts")
    base: Line | None = Field(None, description="branch to start from and merge into")


class Nothing(_Asked):
    """Nothing but how long to wait."""

    wait: Wait = 10.0


class Pause(Nothing):
    """How to pause."""

    turns: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="go on by itself after so many turns of the runner"
    )
    now: bool = Field(False, description="also freeze the agent's processes")  # noqa: FBT003  # a default


class Saying(Nothing):
    """Words for the next attempt."""

    text: Words


class MaybeSaying(Nothing):
    """Words for the next attempt, if there are any."""

    text: Text = ""


class Rejection(Nothing):
    """Why it is not wanted."""

    why: Text = ""


# --- what is told ---------------------------------------------------------------------------


class Fault(BaseModel):
    """What went wrong and what to do."""

    code: str
    text: str
    what_to_do: str


class Failure(BaseModel):
    """Any answer that says no."""

    error: Fault


class Row(_Told):
    """A lifecycle as `loopwright ps --json` shows it."""

    agent_id: str
    task_id: str
    task: str
    attempt: int
    retry_count: int
    spawn_count: int
    created_at: float
    updated_at: float
    tags: list[str]
    error: str | None
    cursor: int
    state: StateWord
    record_state: Coarse
    work_state: str
    since: float
    waiting_for: str
    damaged: str = Field(
        description="what is wrong with a record that cannot be read, of which little else is "
        "shown; `loopwright doctor` says how to mend it"
    )


class Rows(BaseModel):
    """A page, the newest first."""

    items: list[Row]
    next: int | None = Field(description="the cursor of the next page; null after the last")


class Record(_Told):
    """A lifecycle."""

    agent_id: str
    task_id: str
    task: str
    state: StateWord
    record_state: Coarse
    work: dict[str, Any] | None
    created_at: float
    updated_at: float
    submission_summary: str | None
    generated_code: str | None
    changed_files: list[str] | None
    error: str | None
    tags: list[str]
    facts: dict[str, Any]
    version: int
    cursor: int


class Attempt(_Told):
    """One attempt in the ledger."""

    agent_id: str
    attempt: int
    outcome: str
    started_at: float
    ended_at: float | None


class Whole(BaseModel):
    """All about one lifecycle, as `loopwright show --json` tells it."""

    lifecycle: Record
    why: str
    attempts: list[Attempt]
    pending: list[dict[str, Any]]
    runner: dict[str, Any] | None
    files: dict[str, str]


class Added(BaseModel):
    """What was added."""

    lifecycle: Record
    warnings: list[str] = Field(
        description="budgets that do not hold its program, which does not tell what it uses and "
        "is exempt; as `loopwright add` says on standard error"
    )


class Outcome(_Told):
    """What came of an order."""

    lifecycle: Record
    changed: bool = Field(description="asking twice changes nothing the second time")
    text: str


class Entry(_Told):
    """One entry of a journal."""

    seq: int
    at: float
    event: dict[str, Any]
    rule: str
    before: str
    after: str
    late: bool


class Entries(BaseModel):
    """A piece of a journal, in its order."""

    items: list[Entry]
    next: int | None = Field(description="`after` for the next piece; null after the last")


class Summary(BaseModel):
    """What an attempt was told, or what the next one will be."""

    agent_id: str
    attempt: int
    path: str | None
    edited: bool
    text: str


class Summaries(BaseModel):
    """The attempts that have a summary."""

    items: list[int]
    next_attempt: int | None = Field(description="the attempt whose summary can still change")


class Use(BaseModel):
    """What the process tree of an instance uses."""

    processes: int
    memory_bytes: int
    cpu_seconds: float


class Instance(_Told):
    """An instance, as `loopwright instances --json` tells it."""

    instance_id: UUID
    name: str | None
    state: str
    use: Use | None


class Instances(BaseModel):
    """Instances, the newest first."""

    items: list[Instance]


class LifecycleCounts(BaseModel):
    """Lifecycles by their states."""

    by_state: dict[str, int] = Field(description="of those that are not over")
    by_work_state: dict[str, int]
    ended: dict[str, int] = Field(
        description="accepted, rejected and given up since the runner started"
    )


class Statistics(BaseModel):
    """Everything counted."""

    lifecycles: LifecycleCounts
    instances: dict[str, Any]


class Delivery(_Told):
    """A webhook request that was received, without its body."""

    cursor: int
    key: str
    provider: str
    event: str
    received_at: float
    state: str
    outcome: str


class Deliveries(BaseModel):
    """A page, the newest first."""

    items: list[Delivery]
    next: int | None


class Received(BaseModel):
    """A webhook request is kept, or was known already."""

    key: str
    text: str


class Health(BaseModel):
    """How the server does."""

    status: Literal["ok", "ready", "not ready"]
    reason: str = ""
