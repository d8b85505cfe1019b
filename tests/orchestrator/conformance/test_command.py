"""`loopwright agents test`: what may be typed, the question about money, table, exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from orchestrator.cli.commands.agents import run
from orchestrator.cli.error_boundary import guarded
from orchestrator.conformance.cases import CASES
from runtime import proc_table
from tests.waiting import wait_until

GOOD_SCRIPT = Path(__file__).with_name("good.json")
SCRIPTED = f"'{sys.executable}' -P -m runtime.agents.scripted '{GOOD_SCRIPT}'"
QUICK = ("--only", "turn", "--only", "outcome")


def agents(*args: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = guarded(run, "agents", ["test", *args])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which throw-away folders are made."""
    made = tmp_path / "scratch"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def test_the_table_is_plain_and_nothing_stays_behind(scratch: Path) -> None:
    code, out, err = agents("--command", SCRIPTED, "--yes", *QUICK)
    heads, turn, outcome, _, total = out.splitlines()
    assert (code, heads.split()) == (0, ["CASE", "VERDICT", "SECONDS", "WHY"])
    assert turn.split()[:2] == ["turn", "pass"]
    assert outcome.split()[:2] == ["outcome", "pass"]
    assert total == "command: 2 passed, 0 failed, 0 not provoked"
    assert [line.split(" (")[0] for line in err.splitlines()] == ["turn: pass", "outcome: pass"]
    assert "\x1b" not in out + err
    assert list(scratch.iterdir()) == []


def test_a_failure_is_exit_code_6_and_json_is_one_object_with_evidence() -> None:
    code, out, err = agents("command", "--command", "false", "--yes", "--json", *QUICK)
    found = json.loads(out)
    assert (code, err) == (6, "")
    assert (found["agent"], found["conforms"], found["failed"]) == ("command", False, 1)
    [turn, outcome] = found["cases"]
    assert (turn["case"], turn["verdict"]) == ("turn", "fail")
    assert turn["evidence"]["exit_code"] == 1
    assert "bytes of its prompt unread" in turn["why"]
    assert outcome["verdict"] == "not provoked"


def test_what_costs_money_is_never_started_without_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, out, err = agents("--command", f"touch '{started}'", "--only", "turn")
    assert (code, out) == (2, "")
    assert "about 1 answers of its model, which a real one charges for" in err
    assert "Add --yes" in err
    assert not started.exists()
    assert agents("--command", f"touch '{started}'", "--only", "turn", "--yes")[0] == 6
    assert started.exists()


@pytest.mark.parametrize(("answer", "goes_on"), [("y\n", True), ("\n", False), ("", False)])
def test_on_a_terminal_it_asks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    goes_on: bool,  # noqa: FBT001  # a row of a table
) -> None:
    started = tmp_path / "started"
    typed, shown = Terminal(answer), Terminal()
    monkeypatch.setattr("sys.stdin", typed)
    with redirect_stdout(io.StringIO()), redirect_stderr(shown):
        words = ["test", "--command", f"touch '{started}'", "--only", "turn"]
        code = guarded(run, "agents", words)
    assert "Continue? [y/N]" in shown.getvalue()
    assert started.exists() is goes_on
    assert code == (6 if goes_on else 2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_program_and_its_files_are_found_from_where_the_command_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = tmp_path / "agent.sh"
    agent.write_text('#!/bin/sh\ncat > /dev/null\ncat "$1"\n')
    agent.chmod(0o755)
    (tmp_path / "note.txt").write_text("noted\n")
    monkeypatch.chdir(tmp_path)
    code, out, _ = agents("--command", "./agent.sh note.txt", "--yes", *QUICK, "--json")
    assert code == 0, out
    assert json.loads(out)["cases"][0]["evidence"]["printed_bytes"] == len("noted\n")


def test_a_variable_reaches_it_only_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-mine")
    told = tmp_path / "told"
    command = f'sh -c \'cat > /dev/null; echo "$MY_KEY" > "{told}"\''
    assert agents("--command", command, "--yes", *QUICK)[0] == 0
    assert told.read_text() == "\n"
    assert agents("--command", command, "--yes", "--pass", "MY_KEY", *QUICK)[0] == 0
    assert told.read_text() == "sk-mine\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_what_was_started_before_it_ends_the_test(
    scratch: Path, tmp_path: Path, number: signal.Signals
) -> None:
    left = tmp_path / "pid"
    kit = subprocess.Popen(
        (
            *(sys.executable, "-P", "-m", "orchestrator.cli.main", "agents", "test", "--yes"),
            *("--only", "turn", "--command", f"sh -c 'echo $$ > \"{left}\"; sleep 600'"),
        ),
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: left.exists() and left.read_text().endswith("\n"), "it has begun")
        kit.send_signal(number)
        assert kit.wait(20) == 128 + number
    finally:
        kit.kill()
        kit.wait()
    row = proc_table.read_row(int(left.read_text()))
    assert row is None or row.dead
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name an adapter"),
        (("nope", "--yes"), "There is no agent adapter 'nope'"),
        (
            ("claude", "--yes"),
            "claude is not on the PATH; npm install -g @anthropic-ai/claude-code@",
        ),
        (("claude", "--command", "x", "--yes"), "has its own command line"),
        (("--command", "'", "--yes"), "cannot be split into words"),
        (("--command", "", "--yes"), "--command is empty"),
        (("--command", "true", "--pass", "A=sesame", "--yes"), "--pass: names of variables only"),
        (("--command", "true", "--pass", "", "--yes"), "--pass: '' is not the name of a variable"),
        (("--command", "true", "--only", "nope", "--yes"), "there is no case nope; there are: "),
        (("--command", "true", "--exit-code", "1"), "judged by `outcome`"),
        (("--command", "no-such-program-here", "--yes"), "was not found"),
    ],
)
def test_what_cannot_be_tested_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    if "claude" in words and "--command" in words:
        (tmp_path / "claude").write_text("#!/bin/sh\n")
        (tmp_path / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    code, out, err = agents(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert "sesame" not in err


def test_options_of_test_belong_to_test() -> None:
    err = io.StringIO()
    with redirect_stderr(err):
        assert guarded(run, "agents", ["list", "--only", "turn", "--pass", "KEY"]) == 2
    assert "--only, --pass belongs to" in err.getvalue()


PAGE = Path(__file__).resolve().parents[3] / "docs" / "agents" / "conformance.md"


def test_the_example_of_the_page_is_in_the_page_and_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text("utf-8")
    [script] = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (tmp_path / "good.json").write_text(script)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    [typed] = re.findall(r"^\$ loopwright agents test (.*)$", text, re.MULTILINE)
    # The silence of `hang` takes its time; the kit has tests of its own for it.
    quick = [each.name for each in CASES if each.name != "hang"]
    only = [word for name in quick for word in ("--only", name)]
    code, out, _ = agents(*shlex.split(typed), *only, "--json")
    found = {each["case"]: each["verdict"] for each in json.loads(out)["cases"]}
    shown = dict(re.findall(r"^([\w-]+) +(pass|not provoked|fail) ", text, re.MULTILINE)[:13])
    assert code == 0
    assert found == {name: shown[name] for name in quick}


def test_the_page_of_the_kit_tells_every_case() -> None:
    text = PAGE.read_text("utf-8")
    assert [case.name for case in CASES if f"| `{case.name}` |" not in text] == []
