"""A log of a program that reports as JSON is told to people in words."""

from __future__ import annotations

import pytest

from orchestrator.wording.program_output import ReadableOutput
from runtime.agents.catalogue import built_in
from tests.runtime.agents.recorded import ALL, FOLDER, NOON

LINES = (
    b'{"type":"system","subtype":"init","session_id":"s","model":"m-large"}\n'
    b'{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"I look."}]}}\n'
    b'{"type":"assistant","message":{"id":"b","content":[{"type":"tool_use","id":"c","name":"Bash",'
    b'"input":{"command":"npm test"}}]}}\n'
    b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c",'
    b'"is_error":true,"content":"Exit code 1\\n3 failed"}]}}\n'
    b"a line that is not a report\n"
    b'{"type":"something_new","x":1}\n'
    b'{"type":"assistant","message":{"id":"d","content":[{"type":"text","text":"Done."}]}}'
)
TOLD = """\
[starts with m-large]
I look.
$ npm test
! failed: Bash: npm test
! Exit code 1
! 3 failed
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


CALLS = {
    "claude": (
        (
            b'{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"c",'
            b'"name":"Bash","input":{"command":"echo boom >&2; exit 3"}}]}}\n'
            b'{"type":"user","message":{"content":[{"type":"tool_result","content":"Exit 3\\nboom",'
            b'"is_error":true,"tool_use_id":"c"}]}}\n'
            b'{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"d",'
            b'"name":"Edit","input":{"file_path":"/w/src/x.py","old_string":"a"}}]}}\n'
        ),
        (
            "$ echo boom >&2; exit 3\n! failed: Bash: echo boom >&2; exit 3\n! Exit 3\n! boom\n"
            "Edit src/x.py\n"
        ),
    ),
    "codex": (
        (
            b'{"type":"item.started","item":{"id":"item_1","type":"command_execution",'
            b'"command":"/bin/bash -lc \'echo boom >&2; exit 3\'","status":"in_progress"}}\n'
            b'{"type":"item.completed","item":{"id":"item_1","type":"command_execution",'
            b'"command":"/bin/bash -lc \'echo boom >&2; exit 3\'","aggregated_output":"boom\\n",'
            b'"exit_code":3,"status":"failed"}}\n'
            b'{"type":"item.completed","item":{"id":"item_2","type":"file_change","changes":'
            b'[{"path":"/w/src/x.py","kind":"update"},{"path":"/w/y.py","kind":"add"}]}}\n'
            b'{"type":"item.started","item":{"id":"item_3","type":"mcp_tool_call","server":"lw",'
            b'"tool":"signal","arguments":{"question":"Which one?"}}}\n'
        ),
        (
            "$ echo boom >&2; exit 3\n"
            "! failed with exit code 3: Bash: echo boom >&2; exit 3\n! boom\n"
            "Edit src/x.py and 1 more\nlw.signal: Which one?\n"
        ),
    ),
    "gemini": (
        (
            b'{"type":"tool_use","tool_name":"run_shell_command","tool_id":"a",'
            b'"parameters":{"command":"npm test"}}\n'
            b'{"type":"tool_result","tool_id":"a","status":"error","output":"no such file"}\n'
            b'{"type":"tool_use","tool_name":"search_file_content","tool_id":"b",'
            b'"parameters":{"path":"/w/src","pattern":"def add"}}\n'
        ),
        "$ npm test\n! failed: Bash: npm test\n! no such file\nSearch: def add\n",
    ),
    "copilot": (
        (
            b'{"type":"tool.execution_start","data":{"toolCallId":"a","toolName":"bash",'
            b'"arguments":{"command":"npm test","description":"Runs the tests"}}}\n'
            b'{"type":"tool.execution_complete","data":{"toolCallId":"a","success":false,'
            b'"shellExecution":{"exitCode":1},"result":{"content":"1 failed"}}}\n'
            b'{"type":"tool.execution_start","data":{"toolCallId":"b","toolName":"view",'
            b'"arguments":{"path":"/w/src/x.py"}}}\n'
        ),
        "$ npm test\n! failed with exit code 1: Bash: npm test\n! 1 failed\nRead src/x.py\n",
    ),
    "opencode": (
        (
            b'{"type":"tool_use","sessionID":"s","part":{"type":"tool","tool":"bash","callID":"a",'
            b'"state":{"status":"completed","input":{"command":"echo boom >&2; exit 3"},'
            b'"output":"boom\\n","metadata":{"exit":3}}}}\n'
            b'{"type":"tool_use","sessionID":"s","part":{"type":"tool","tool":"write","callID":"b",'
            b'"state":{"status":"completed","input":{"filePath":"/w/a b.txt","content":"x"}}}}\n'
        ),
        (
            "[starts]\n$ echo boom >&2; exit 3\n"
            "! failed with exit code 3: Bash: echo boom >&2; exit 3\n! boom\nWrite a b.txt\n"
        ),
    ),
}
"""Of each program a command that fails and another tool, cut from recorded runs."""


@pytest.mark.parametrize("program", CALLS)
def test_commands_and_files_are_told_and_failures_with_what_they_said(program: str) -> None:
    lines, told = CALLS[program]
    retelling = ReadableOutput(built_in(program), lambda: NOON, "/w")
    assert retelling.take(lines) + retelling.end() == told


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (b'{"command":["git","commit","-m","a b"]}', "$ git commit -m 'a b'"),
        (b'{"command":"bash -lc \'echo \\"x\\"\'"}', '$ echo "x"'),
        (b'{"command":"bash -lc \'open"}', "$ bash -lc 'open"),
        (b'{"command":7}', "Bash"),
        (b"[]", "Bash"),
        (b'{"command":{"a":1}}', "Bash"),
    ],
)
def test_what_a_command_is_given_may_have_any_form(given: bytes, shown: str) -> None:
    line = (
        b'{"type":"assistant","message":{"content":[{"type":"tool_use","id":"c","name":"Bash",'
        b'"input":' + given + b"}]}}\n"
    )
    retelling = ReadableOutput(built_in("claude"), lambda: NOON)
    assert retelling.take(line) == f"{shown}\n"
