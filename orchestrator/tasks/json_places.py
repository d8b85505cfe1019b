"""JSON with the place of each value in its text, so that one can be changed and the rest stays."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from lifecycle.errors import PlanError

_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class JsonNode:
    """One value, and where it stands."""

    start: int
    end: int
    value: Any
    members: dict[str, JsonNode] = field(default_factory=dict)
    """Of an object; of two members with one name the last, as everywhere."""
    items: list[JsonNode] = field(default_factory=list)
    """Of a list."""

    @property
    def is_object(self) -> bool:
        """Whether it is an object."""
        return isinstance(self.value, dict)

    def text(self, *names: str) -> str:
        """Return the first of these members that says something, as a text."""
        for name in names:
            node = self.members.get(name)
            if node is not None and isinstance(node.value, str | int | float):
                said = "" if isinstance(node.value, bool) else str(node.value).strip()
                if said:
                    return said
        return ""

    def texts(self, *names: str) -> tuple[str, ...]:
        """Return the first of these members that lists something, as texts."""
        for name in names:
            node = self.members.get(name)
            if node is None or not node.value:
                continue
            if isinstance(node.value, str):
                return tuple(line for each in node.value.splitlines() if (line := _bare(each)))
            found = (each.text("text", "title", "description", "criterion", "id") if each.is_object
                     else str(each.value).strip() for each in node.items)  # fmt: skip
            return tuple(each for each in found if each)
        return ()


def _bare(line: str) -> str:
    return re.sub(r"^\s*(?:[-*+]\s+(?:\[[ xX]\]\s+)?)?", "", line).strip()


def parsed(text: str, where: str) -> JsonNode:
    """Read a text; PlanError names the line of what is no JSON."""
    try:
        json.loads(text.removeprefix("\ufeff"))
        return _value(text, _past(text, 0))
    except json.JSONDecodeError as problem:
        place = f"{where}:{problem.lineno}"
        raise PlanError(f"{place}: {problem.msg} (column {problem.colno})") from problem
    except RecursionError as problem:
        raise PlanError(f"{where} is nested too deeply for a list of tasks") from problem


def _past(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


def _value(text: str, start: int) -> JsonNode:
    """Read one value of a text that is known to be JSON."""
    if text[start] == "{":
        return _object(text, start)
    if text[start] == "[":
        return _list(text, start)
    value, end = _DECODER.raw_decode(text, start)
    return JsonNode(start, end, value)


def _object(text: str, start: int) -> JsonNode:
    node, at = JsonNode(start, start, {}), _past(text, start + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        inner = _value(text, _past(text, _past(text, at) + 1))
        node.members[name] = inner
        node.value[name] = inner.value
        at = _past(text, inner.end)
        at = _past(text, at + 1) if text[at] == "," else at
    node.end = at + 1
    return node


def _list(text: str, start: int) -> JsonNode:
    node, at = JsonNode(start, start, []), _past(text, start + 1)
    while text[at] != "]":
        inner = _value(text, at)
        node.items.append(inner)
        node.value.append(inner.value)
        at = _past(text, inner.end)
        at = _past(text, at + 1) if text[at] == "," else at
    node.end = at + 1
    return node
