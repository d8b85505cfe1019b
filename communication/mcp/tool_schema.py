"""The schemas of the tools, and the validation of what a model sends.

One table for both: what a schema promises is what validation enforces. Pure; must not import more
than the standard library and this package's words.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from communication.errors import SignalError
from communication.words import BreakpointType, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_TEXT = 64 * 1024
"""Characters of one text: all agents share one mailbox, and its size is bounded."""
MAX_ITEMS = 200
_LIST_BYTES = 4 * MAX_TEXT


class ArgumentKind(StrEnum):
    """The type of an argument."""

    TEXT = "a text"
    FLAG = "true or false"
    TEXTS = "a list of texts"
    TYPE = "one of the types"
    REQUESTS = "a list of objects with `to` and `text`"
    REPLIES = "a list of objects with `id` and `text`"


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    form = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**form, "required": required} if required else form


_TEXT: dict[str, Any] = {"type": "string"}
_FORMS: Mapping[ArgumentKind, dict[str, Any]] = {
    ArgumentKind.TEXT: _TEXT,
    ArgumentKind.FLAG: {"type": "boolean"},
    ArgumentKind.TEXTS: {"type": "array", "items": _TEXT},
    ArgumentKind.TYPE: {**_TEXT, "enum": [str(kind) for kind in BreakpointType]},
    ArgumentKind.REQUESTS: {
        "type": "array",
        "items": _object({"to": _TEXT, "text": _TEXT}, ["to", "text"]),
    },
    ArgumentKind.REPLIES: {
        "type": "array",
        "items": _object({"id": _TEXT, "text": _TEXT}, ["id", "text"]),
    },
}


class Argument(NamedTuple):
    """One argument of a tool."""

    kind: ArgumentKind
    told: str
    """What the model reads."""
    required: bool = False

    def schema(self) -> dict[str, Any]:
        """Return its JSON schema."""
        return {**_FORMS[self.kind], "description": self.told}


class Tool(NamedTuple):
    """One tool as a model sees it."""

    name: str
    told: str
    arguments: Mapping[str, Argument]
    reads_only: bool = False
    ends_work: bool = False
    """Whether it cannot be taken back."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of its arguments."""
        return _object(
            {name: each.schema() for name, each in self.arguments.items()},
            [name for name, each in self.arguments.items() if each.required],
        )


def listed(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Return tools as the protocol lists them."""
    return [
        {
            "name": tool.name,
            "description": tool.told,
            "inputSchema": tool.schema(),
            # Without these some programs treat a tool as dangerous and ask a person first.
            "annotations": {
                "readOnlyHint": tool.reads_only,
                "destructiveHint": tool.ends_work,
                "openWorldHint": False,
            },
        }
        for tool in tools
    ]


_SUMMARY = Argument(ArgumentKind.TEXT, "What you did and how it was checked, for the next attempt.")
PROGRESS = {
    "mission": Argument(ArgumentKind.TEXT, "Your task in one sentence."),
    "working_on": Argument(ArgumentKind.TEXT, "What you do now."),
    "done": Argument(ArgumentKind.TEXTS, "All that is done so far."),
    "next": Argument(ArgumentKind.TEXTS, "All that comes next."),
    "requests": Argument(
        ArgumentKind.REQUESTS,
        "What you ask of other agents: an agent id or * for all, and the text.",
    ),
}
_ALL = (
    Tool(
        "report_breakpoint",
        "End this attempt: say that the task is complete, blocked, has a pull request, or needs "
        "an answer. Call it once, as your last act, then stop.",
        {
            "type": Argument(ArgumentKind.TYPE, "Why you stop.", required=True),
            "summary": _SUMMARY,
            "blocked_on": Argument(ArgumentKind.TEXTS, "For blocked: task ids or free words."),
            "reason": Argument(ArgumentKind.TEXT, "For blocked: why."),
            "pr_url": Argument(ArgumentKind.TEXT, "For pr_created: the pull request."),
            "question": Argument(ArgumentKind.TEXT, "For question: what a person must answer."),
            "replies": Argument(
                ArgumentKind.REPLIES,
                "For pr_created and task_complete: your answers to reviewers' remarks, by id.",
            ),
        },
    ),
    Tool(
        "ask_question",
        "End this attempt with a question to a person; the next attempt gets the answer. Stop "
        "after it.",
        {
            "question": Argument(ArgumentKind.TEXT, "What must be decided.", required=True),
            "summary": _SUMMARY,
        },
    ),
    Tool(
        "report_progress",
        "Tell people and other agents how far you are, then continue. What you give replaces "
        "what you gave before, the rest stays.",
        PROGRESS,
    ),
    Tool(
        "get_context",
        "Read the summary of what earlier attempts did and what other agents ask of you.",
        {},
        reads_only=True,
    ),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _ALL}


def given(tool: Tool, arguments: object) -> dict[str, Any]:
    """Return what was given, fit for the mailbox; SignalError says what to send instead."""
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise SignalError(f"the arguments of {tool.name} must be an object")
    strange = [key for key in arguments if key not in tool.arguments]
    if strange:
        known = ", ".join(tool.arguments) or "none"
        raise SignalError(f"{tool.name} takes no {shown(strange[0])}; its arguments are: {known}")
    # Models write null where they leave something out.
    said = {
        name: _checked(name, tool.arguments[name].kind, value)
        for name, value in arguments.items()
        if value is not None
    }
    for name, each in tool.arguments.items():
        if each.required and name not in said:
            raise SignalError(f"{tool.name} needs {name!r}: {each.told}")
    return said


def _checked(name: str, kind: ArgumentKind, value: object) -> Any:
    match kind:
        case ArgumentKind.TEXT | ArgumentKind.TYPE:
            return _text(name, value)
        case ArgumentKind.FLAG:
            if not isinstance(value, bool):
                raise _wrong(name, str(kind), value)
            return value
        case ArgumentKind.TEXTS:
            # The mailbox also accepts a single text instead of a list.
            items = _items(name, kind, [value] if isinstance(value, str) else value)
            return _bounded(name, [_text(name, item) for item in items])
        case ArgumentKind.REQUESTS:
            return _bounded(name, _rows(name, kind, value, ("to", "text")))
        case ArgumentKind.REPLIES:
            return _bounded(name, _rows(name, kind, value, ("id", "text")))


def _items(name: str, kind: ArgumentKind, value: object) -> list[object]:
    if not isinstance(value, list):
        raise _wrong(name, str(kind), value)
    if len(value) > MAX_ITEMS:
        raise SignalError(f"{name!r} has {len(value):,} items, at most {MAX_ITEMS}; say less")
    return value


def _rows(name: str, kind: ArgumentKind, value: object, keys: tuple[str, ...]) -> list[list[str]]:
    rows = []
    for item in _items(name, kind, value):
        if not isinstance(item, dict) or set(item) != set(keys):
            raise _wrong(name, str(kind), item)
        rows.append([_text(f"{name}.{key}", item[key]) for key in keys])
    return rows


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(name, str(ArgumentKind.TEXT), value)
    if len(value) > MAX_TEXT:
        raise SignalError(
            f"{name!r} has {len(value):,} characters, at most {MAX_TEXT:,}; say less, or write it "
            "into a file and name that"
        )
    # Half surrogates are not characters, and NUL is in no name or address.
    return value.replace("\0", "").encode("utf-8", "replace").decode()


def _bounded(name: str, items: list[Any]) -> list[Any]:
    size = sum(len(text) for item in items for text in ([item] if isinstance(item, str) else item))
    if size > _LIST_BYTES:
        raise SignalError(
            f"{name!r} has {size:,} characters in all, at most {_LIST_BYTES:,}; say less"
        )
    return items


def _wrong(name: str, wanted: str, value: object) -> SignalError:
    found = shown(value) if isinstance(value, str | int | float) else type(value).__name__
    return SignalError(f"{name!r} must be {wanted}, not {found}")
