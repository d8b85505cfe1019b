"""From what a script wants done to a call of the tool that the program offers for it.

Arguments are fitted to the tool's own schema, so that a new version with one more required
argument is still called rightly. Must know nothing of how an API writes a call down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.models.script import Call, Part, Say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHELLS = (
    "bash",
    "shell",
    "exec_command",
    "shell_command",
    "local_shell",
    "run_shell_command",
)
COMMANDS = ("command", "cmd")


@dataclass(frozen=True)
class Tool:
    """A tool that a request offers."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""

    @property
    def properties(self) -> Mapping[str, Any]:
        known: Mapping[str, Any] = self.schema.get("properties", {})
        return known

    def is_called(self, name: str) -> bool:
        """Tell whether this is its name, or the last part of it."""
        full = f"{self.namespace}__{self.name}"
        return name in {self.name, full} or bool(re.search(rf"[_-]{re.escape(name)}\Z", full))


@dataclass(frozen=True)
class Use:
    """A call, as it is to be written down."""

    identity: str
    tool: Tool
    arguments: Mapping[str, Any]


class NotOfferedError(Exception):
    """The request offers no such tool."""


def placed(part: Part, offered: Iterable[Tool], identity: str) -> str | Use:
    """Return the text to say, or the call to make."""
    tools = {each.name.lower(): each for each in offered}
    if isinstance(part, Say):
        return part.text
    if isinstance(part, Call):
        return Use(identity, *_called(part, tools.values()))
    return _shell(part.command, tools, identity)


def _shell(command: str, tools: Mapping[str, Tool], identity: str) -> Use:
    for name in SHELLS:
        if name in tools:
            tool = tools[name]
            listed = any(tool.properties.get(each, {}).get("type") == "array" for each in COMMANDS)
            words = ["bash", "-lc", command] if listed else command
            return Use(identity, tool, _fitted(tool, dict.fromkeys(COMMANDS, words)))
    raise NotOfferedError(f"no shell is offered, but {sorted(tools)}")


def _called(part: Call, tools: Iterable[Tool]) -> tuple[Tool, Mapping[str, Any]]:
    tools = tuple(tools)
    for each in tools:
        if each.is_called(part.tool):
            return each, part.arguments
    raise NotOfferedError(f"{part.tool} is not offered, but {sorted(each.name for each in tools)}")


def _fitted(tool: Tool, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what the tool knows, and fill what else it requires."""
    known = tool.properties
    fitted = {name: value for name, value in wanted.items() if name in known}
    for name in tool.schema.get("required", ()):
        fitted.setdefault(name, _filler(known.get(name, {})))
    return fitted


def _filler(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type", "string")).lower()
    return {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}.get(
        kind, "scripted"
    )
