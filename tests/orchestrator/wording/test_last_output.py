"""The last words of an agent in the live table: what it says, never in which form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lifecycle.plan import Agent
from orchestrator.wording.last_output import REPORT_BYTES, LastOutput
from runtime.masking.masker import Masker

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "s3cr3t-value-of-a-token"  # noqa: S105  # nobody's
CLAUDE = Agent(agent_id="agent-T001", adapter="claude")


def says(text: str) -> str:
    content = [{"type": "text", "text": text}]
    return json.dumps({"type": "assistant", "message": {"id": text, "content": content}}) + "\n"


def calls(name: str, **given: object) -> str:
    content = [{"type": "tool_use", "id": "t", "name": name, "input": given}]
    return json.dumps({"type": "assistant", "message": {"id": "m", "content": content}}) + "\n"


def result_of(size: int) -> str:
    content = [{"type": "tool_result", "tool_use_id": "t", "content": "x" * size}]
    return json.dumps({"type": "user", "message": {"content": content}}) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "1.log"
    path.touch()
    return path


@pytest.fixture
def words() -> LastOutput:
    return LastOutput(lambda: 1.8e9, Masker({"TOKEN": SECRET}))


def add(log: Path, text: str) -> None:
    with log.open("a") as stream:
        stream.write(text)


def test_a_report_is_shown_by_what_it_says(words: LastOutput, log: Path) -> None:
    assert words.of(CLAUDE, 1, "", log) == ""
    add(log, says("Reading\nthe code"))
    assert words.of(CLAUDE, 1, "", log) == "the code"
    add(log, says("Writing \x1b[31mit\u202e"))
    assert words.of(CLAUDE, 1, "", log) == "Writing it"


def test_what_says_nothing_leaves_the_last_words(words: LastOutput, log: Path) -> None:
    add(log, says("Reading"))
    assert words.of(CLAUDE, 1, "", log) == "Reading"
    add(log, result_of(10) + says("not whole")[:-20])
    assert words.of(CLAUDE, 1, "", log) == "Reading"
    add(log, says("not whole")[-20:])
    assert words.of(CLAUDE, 1, "", log) == "not whole"


@pytest.mark.parametrize("size", [REPORT_BYTES // 2, REPORT_BYTES - 40, REPORT_BYTES * 2])
def test_a_long_report_is_passed_over_and_never_shown_raw(
    words: LastOutput, log: Path, size: int
) -> None:
    add(log, says("Reading") + result_of(size))
    assert words.of(CLAUDE, 1, "", log) in ("", "Reading")
    add(log, result_of(size)[:-5])
    assert words.of(CLAUDE, 1, "", log) in ("", "Reading")
    add(log, result_of(size)[-5:] + says("Writing"))
    assert words.of(CLAUDE, 1, "", log) == "Writing"


def test_of_a_chain_the_program_at_work_tells_how_to_read(words: LastOutput, log: Path) -> None:
    chain = Agent(agent_id="agent-T001", agents=("claude", "codex"))
    add(log, says("From claude"))
    assert words.of(chain, 1, "claude", log) == "From claude"
    log.write_text(
        '{"type":"item.completed","item":{"type":"agent_message","text":"From codex"}}\n'
    )
    assert words.of(chain, 2, "codex", log) == "From codex"


def test_the_output_of_a_command_is_its_own_text(words: LastOutput, log: Path) -> None:
    agent = Agent(agent_id="agent-T001", command=("./mine",))
    add(log, "x" * 5000 + "\nReading [bold]the[/bold] code\n")
    assert words.of(agent, 1, "", log) == "Reading [bold]the[/bold] code"


def test_each_byte_is_read_at_most_once(words: LastOutput, log: Path) -> None:
    add(log, says("Reading") * 3)
    words.of(CLAUDE, 1, "", log)
    size = log.stat().st_size
    log.write_bytes(b"\0" * size + says("Writing").encode())
    assert words.of(CLAUDE, 1, "", log) == "Writing"
    log.unlink()
    assert words.of(CLAUDE, 1, "", log) == ""


def test_a_tool_at_work_is_named_with_what_it_is_about(words: LastOutput, log: Path) -> None:
    add(log, says("I test it") + calls("Bash", command="npm  test\n -- --watch=no"))
    assert words.of(CLAUDE, 1, "", log, "/w/x") == "Bash: npm test -- --watch=no"
    add(log, result_of(10))
    assert words.of(CLAUDE, 1, "", log, "/w/x") == "Bash: npm test -- --watch=no"
    add(log, calls("Edit", file_path="/w/x/src/a.py", old_string="a"))
    assert words.of(CLAUDE, 1, "", log, "/w/x") == "Edit src/a.py"
    add(log, says("Done with it"))
    assert words.of(CLAUDE, 1, "", log, "/w/x") == "Done with it"


def test_secrets_and_hostile_text_of_a_command_are_not_shown(words: LastOutput, log: Path) -> None:
    add(log, calls("Bash", command=f"curl -H {SECRET} \x1b]0;owned\x07\u202e x"))
    assert words.of(CLAUDE, 1, "", log) == "Bash: curl -H ***TOKEN*** x"
    add(log, calls("Bash\x1b[2J", command="x"))
    assert words.of(CLAUDE, 1, "", log) == "Bash"
    agent = Agent(agent_id="agent-T002", command=("./mine",))
    log.write_text(f"token {SECRET}\n")
    assert words.of(agent, 1, "", log) == "token ***TOKEN***"


def test_a_command_that_is_longer_than_a_line_is_cut(words: LastOutput, log: Path) -> None:
    add(log, calls("Bash", command="echo " + "x" * 5000))
    shown = words.of(CLAUDE, 1, "", log)
    assert shown.startswith("Bash: echo xxx")
    assert len(shown) <= 200
