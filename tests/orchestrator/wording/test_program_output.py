"""A log of a program that reports as JSON is told to people in words."""

from __future__ import annotations

import pytest

from orchestrator.wording.program_output import ReadableOutput
from runtime.agents.catalogue import built_in
from tests.runtime.agents.recorded import ALL, FOLDER, NOON

LINES = (
    b'{"type":"system","subtype":"init","session_id":"s","model":"m-large"}\n'
    b'{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"I look."}]}}\n'
    b'{"type":"assistant","message":{"id":"b","content":[{"type":"tool_use","id":"c","name":"Bash","input":{}}]}}\n'
    b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":"no"}]}}\n'
    b"a line that is not a report\n"
    b'{"type":"something_new","x":1}\n'
    b'{"type":"assistant","message":{"id":"d","content":[{"type":"text","text":"Done."}]}}'
)
TOLD = """\
[starts with m-large]
I look.
[calls Bash]
[Bash failed]
a line that is not a report
Done.
"""


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_reports_are_told_in_words_however_they_are_cut(size: int) -> None:
    retelling = ReadableOutput(built_in("claude"), lambda: NOON)
    pieces = [LINES[at : at + size] for at in range(0, len(LINES), size)]
    assert "".join(map(retelling.take, pieces)) + retelling.end() == TOLD


@pytest.mark.parametrize(("name", "case"), ALL, ids=str)
def test_every_recorded_run_is_told_without_its_json(name: str, case: str) -> None:
    retelling = ReadableOutput(built_in(name), lambda: NOON)
    told = retelling.take((FOLDER / name / f"{case}.stdout").read_bytes()) + retelling.end()
    assert not [line for line in told.splitlines() if line.startswith('{"')]
    assert told.endswith("\n") or not told
