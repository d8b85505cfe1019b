"""The forms of questions and answers, as /openapi.json tells them.

Requests are checked by them. Answers are not: each is described by the form that it is made by, of
which those about a lifecycle stand in `orchestrator.wording`; a test holds the others to it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID  # noqa: TC003  # pydantic reads it at run time

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool

from lifecycle.machine.states import ALL
from lifecycle.plan import Allowance, IssueName  # noqa: TC001  # pydantic reads it at run time
from lifecycle.state_words import RECORD_STATES, meant, spelled
from orchestrator.wording.json_forms import EditForm, EntryForm, RecordForm  # noqa: TC001  # hints are read at run time
from orchestrator.wording.lifecycle_row import LifecycleRow  # noqa: TC001  # as above

StateWord = StrEnum("StateWord", {spelled(word): spelled(word) for word in RECORD_STATES})  # type: ignore[misc]  # made of the one table of words
MeantWord = Annotated[StateWord, BeforeValidator(lambda text: spelled(meant(str(text))) or text)]
"""A word as a person may spell it."""
WorkState = StrEnum("WorkState", {each.__name__: each.__name__ for each in ALL})  # type: ignore[misc]  # made of the machine's own list
Text = Annotated[str, Field(max_length=100_000, pattern=r"^[^\x00]*$")]
_SOMETHING = r"^[^\x00]*[^\s\x00][^\x00]*$"
_ONE_LINE = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
_NO_CONTROL = r"^[^\x00-\x1f\x7f]*$"
Words = Annotated[str, Field(min_length=1, max_length=100_000, pattern=_SOMETHING)]
Line = Annotated[str, Field(min_length=1, max_length=4096, pattern=_ONE_LINE)]
Version = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Wait = Annotated[
    float,
    Field(
        10.0,
        strict=True,
        ge=0,
        le=60,
        allow_inf_nan=False,
        description="seconds to wait for it to take effect",
    ),
]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False)


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
    issue: Annotated[IssueName, Field(max_length=4096, pattern=_NO_CONTROL)] = Field(
        "", description="the issue that it is about: its number, owner/name#12 or its address"
    )
    title: Annotated[str, Field(max_length=200, pattern=_NO_CONTROL)] = Field(
        "", description="by default the first line of the text"
    )
    acceptance: list[Line] = Field([], max_length=100, description="what must be true at the end")
    dependencies: list[Line] = Field(
        [], max_length=100, description="tasks, or their agents, that must be complete before"
    )
    budget: Allowance | None = Field(None, description="what its attempts may use together")


class Nothing(_Asked):
    """Only how long to wait."""

    wait: Wait = 10.0


class Reasoned(Nothing):
    """Why it is asked for."""

    why: Text = Field("", description="the reason, for the record")


class Pause(Reasoned):
    """How to pause."""

    turns: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        None, description="continue by itself after so many turns of the runner"
    )
    now: StrictBool = Field(default=False, description="also freeze the agent's processes")


class Approval(Reasoned):
    """Which summary is approved."""

    version: Version | None = Field(None, description="only if it is still this one")


class Replacement(_Asked):
    """A person's text in the place of a summary; an empty one takes back what was written."""

    text: Text
    version: Version | None = Field(
        None, description="only if the summary is still this one; or the header If-Match"
    )


class Changes(_Asked):
    """Which changes of settings are meant."""

    changes: list[Version] = Field(
        min_length=1, max_length=1000, description="the `id` of each, as /settings lists them"
    )
    why: Text = Field("", description="the reason, for the record")


class Saying(Nothing):
    """Words for the next attempt."""

    text: Words


Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$", description="the id of a commit")]
Name = Annotated[str, Field(min_length=1, max_length=4096)]


class LineComment(_Asked):
    """A comment on a line of a changed file."""

    file: Name
    line: Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
    text: Words
    side: Literal["new", "old"] = Field("new", description="old: a line that was removed")


class SendingBack(Nothing):
    """Words for the next attempt, and comments on lines of its work."""

    text: Text = ""
    comments: list[LineComment] = Field([], max_length=200)
    marked: StrictBool = Field(
        default=False,
        description="also with the comments that you keep as marks; they are forgotten then",
    )


class Acceptance(Reasoned):
    """Accept of what was looked at."""

    expect_head: Commit | None = Field(
        None, description="merge only this commit; 409 `moved` if the work is at another now"
    )
    with_dependencies: StrictBool = Field(
        default=False,
        description="also what comes along and was not accepted",
    )
    verify: StrictBool = Field(
        default=True, description="only if the merged files pass the verify commands"
    )


class Marks(_Asked):
    """What you marked of one commit; it replaces what you had marked before."""

    head: Commit
    seen: list[Name] = Field([], max_length=5000)
    comments: list[LineComment] = Field([], max_length=200)


class MaybeSaying(Reasoned):
    """Words for the next attempt, if there are any."""

    text: Text = ""


# --- what is told: each described by its `model_of`, without `Form` ---------------------------


class FaultForm(TypedDict):
    """What went wrong and what to do."""

    code: str
    text: str
    what_to_do: str


class FailureForm(TypedDict):
    """Any answer that refuses a request."""

    error: FaultForm


class RowsForm(TypedDict):
    """A page, the newest first."""

    items: list[LifecycleRow]
    next: int | None
    """the cursor of the next page; null after the last"""


class AddedForm(TypedDict):
    """What was added."""

    lifecycle: RecordForm
    warnings: list[str]
    """budgets that do not hold its program, which does not tell what it uses and is exempt; as
    `loopwright add` says on standard error"""


class OutcomeForm(TypedDict):
    """The outcome of a command."""

    lifecycle: RecordForm
    changed: bool
    """false where it was so already: to accept or to reject twice is safe"""
    text: str


class EntriesForm(TypedDict):
    """A piece of a journal, in its order."""

    items: list[EntryForm]
    next: int | None
    """`after` for the next piece; null after the last"""


class SummariesForm(TypedDict):
    """The attempts that have a summary."""

    items: list[int]
    next_attempt: int | None
    """the attempt whose summary can still change"""
    waits: bool
    """whether that attempt has not begun, so that its summary can be seen"""
    held: bool
    """whether it begins only when its summary is approved"""
    edits: list[EditForm]
    """what people wrote in the place of summaries, the oldest first"""


class UseForm(TypedDict):
    """What the process tree of an instance uses."""

    processes: int
    memory_bytes: int
    cpu_seconds: float


class InstanceForm(TypedDict):
    """An instance, as `loopwright instances --json` tells it."""

    instance_id: UUID
    name: str | None
    state: str
    use: UseForm | None


class InstancesForm(TypedDict):
    """Instances, the newest first."""

    items: list[InstanceForm]


class LifecycleCountsForm(TypedDict):
    """Lifecycles by their states."""

    by_state: dict[str, int]
    """of those that are not over"""
    by_work_state: dict[str, int]
    ended: dict[str, int]
    """accepted, rejected and given up since the runner started"""


class StatisticsForm(TypedDict):
    """Everything counted."""

    lifecycles: LifecycleCountsForm
    instances: dict[str, Any]


class DeliveryForm(TypedDict):
    """A webhook request that was received, without its body."""

    cursor: int
    key: str
    provider: str
    event: str
    received_at: float
    state: str
    outcome: str


class DeliveriesForm(TypedDict):
    """A page, the newest first."""

    items: list[DeliveryForm]
    next: int | None


class ReceivedForm(TypedDict):
    """A webhook request is kept, or was known already."""

    key: str
    text: str


class Health(BaseModel):
    """How the server does."""

    status: Literal["ok", "ready", "not ready"]
    reason: str = ""
