"""However much a program prints, and whatever it prints, what is kept of it stays small."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.attempt.output_monitor import LATE_AT_MOST, READ_AT_ONCE, Monitor
from runtime.agents.catalogue import built_in
from runtime.agents.parsing.fields import parsed
from tests.runtime.agents.recorded import FOLDER, NOON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAMS = ("claude", "codex", "gemini", "opencode", "copilot")
LENGTH = 50_000
TIMES = 8
"""With as many texts of that length, all of them together are much more than any one."""
KEPT_AT_MOST = 4 * LENGTH
Way = tuple[str | int, ...]


def _texts(value: Any, way: Way = ()) -> Iterator[Way]:
    if isinstance(value, str):
        yield way
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, (*way, key))
    elif isinstance(value, list):
        for each in value[:1]:  # the others are as the first
            yield from _texts(each, (*way, 0))


def _put(value: Any, way: Way, text: str) -> Any:
    if not way:
        return text
    changed = value.copy()
    changed[way[0]] = _put(value[way[0]], way[1:], text)
    return changed


def _kinds(program: str) -> list[tuple[Any, Way]]:
    """Return one event of each shape, with each text in it that may be made long."""
    found: dict[tuple[Any, ...], tuple[Any, Way]] = {}
    for path in sorted((FOLDER / program).glob("*.stdout")):
        for line in path.read_bytes().splitlines():
            event = parsed(line)  # some were cut off in the middle of one
            if event is None:
                continue
            shape = [event.get(name) for name in ("type", "subtype", "role")]
            for way in _texts(event):
                if way != ("type",):
                    found.setdefault((*shape, way), (event, way))
    return list(found.values())


@pytest.mark.parametrize("live", [True, False], ids=["live", "afterwards"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_text_of_an_event_makes_a_parser_grow(program: str, *, live: bool) -> None:
    kinds = _kinds(program)
    assert kinds
    grown = {}
    for event, way in kinds:
        parser = built_in(program).parser(lambda: NOON, live=live)
        tracemalloc.start()
        for number in range(TIMES):
            text = f"{number:04d}{'x' * LENGTH}"
            parser.feed(json.dumps(_put(event, way, text), separators=(",", ":")).encode())
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if kept > KEPT_AT_MOST:
            grown[(event["type"], way)] = kept
    assert grown == {}


@pytest.mark.parametrize("live", [True, False], ids=["live", "afterwards"])
def test_many_tools_in_the_background_are_not_all_remembered(*, live: bool) -> None:
    parser = built_in("claude").parser(lambda: NOON, live=live)
    tracemalloc.start()
    for number in range(5000):
        behind = {"run_in_background": True}
        call = {"type": "tool_use", "id": f"{number:0500d}", "name": "Bash", "input": behind}
        event = {"type": "assistant", "message": {"id": "m", "content": [call]}}
        parser.feed(json.dumps(event, separators=(",", ":")).encode())
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2_000_000


def test_a_flood_is_read_from_both_ends_when_its_program_is_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first, *said, last = (FOLDER / "claude" / "ok.stdout").read_bytes().splitlines(keepends=True)
    call = next(line for line in said if b'"tool_use"' in line)
    call = call.replace(b"printf", b"x" * 20_000)
    room = READ_AT_ONCE + LATE_AT_MOST
    written = 3 * room // len(call)
    with log.open("wb") as out:
        out.write(first)
        out.writelines(call for _ in range(written))
        out.writelines([*said, last])
    report = Monitor(built_in("claude"), log, 0, lambda: NOON).finish(0, None, None, spoke=True)
    assert report is not None
    assert report.model == "claude-opus-5-5"
    assert report.last_words == "Done: wrote communications.json."
    assert 0 < report.tool_calls <= room // len(call) + 2 < written
