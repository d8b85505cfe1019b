"""`doctor` tries set-up, verify commands and the agent in a copy, and ends with what is next."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.doctor.agents import _sign_in
from runtime.agents.catalogue import built_in
from tests.tools.machine import gives

if TYPE_CHECKING:
    from tests.orchestrator.filled import Cli

ROOT = Path(__file__).parents[3]
SIGNAL = "cat > /dev/null; loopwright signal task_complete --summary ready"


def settings(cli: Cli, **values: object) -> None:
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    (cli.repo / "loopwright.toml").write_text(text)


def status(repo: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "for-each-ref"], cwd=repo, check=True, capture_output=True, text=True
    )
    return [*sorted(str(each) for each in repo.glob("*")), listed.stdout]


def test_set_up_gates_and_agent_are_tried_in_a_copy_and_nothing_is_left(empty: Cli) -> None:
    (empty.repo / "own.env").write_text("x")
    settings(
        empty,
        command=["sh", "-c", SIGNAL],
        copy=["own.env"],
        setup=["cat own.env > made.txt"],
        verify=["grep x made.txt", "test ! -e .loopwright"],
        budget_attempts=3,
    )
    before = status(empty.repo)
    lines = empty("doctor", "--agent").splitlines()
    assert empty.code == 0
    assert lines[-1] == 'Ready: loopwright run "TEXT"'
    told = [" ".join(line.split()) for line in lines]
    assert [line for line in told if line.startswith("ok set-up `cat own.env")]
    assert [line for line in told if line.startswith("ok agent turn sh took a turn")]
    gates = [line for line in told if line.startswith("ok gates")]
    assert len(gates) == 2
    assert "in a fresh checkout" in gates[0]
    assert status(empty.repo) == before
    assert not (empty.repo / ".loopwright").exists()


@pytest.mark.parametrize(
    ("values", "level", "what", "found"),
    [
        ({"verify": ["echo no such thing; false"]}, "warn", "gates", "no such thing"),
        ({"verify": ["no-such-program-here"]}, "bad", "gates", "ended with code 127"),
        ({"setup": ["exit 3"], "verify": ["true"]}, "bad", "set-up", "ended with code 3"),
    ],
)
def test_what_does_not_work_in_a_fresh_checkout_is_what_is_next(
    empty: Cli, values: dict[str, object], level: str, what: str, found: str
) -> None:
    settings(empty, command=["true"], budget_attempts=3, **values)
    told = json.loads(empty("doctor", "--json"))
    worst = next(each for each in told["checks"] if each["what"] == what)
    assert (worst["level"], found in worst["found"]) == (level, True), worst
    assert told["next"] == worst["mend"] != ""
    assert empty.code == (2 if level == "bad" else 0)


def test_an_agent_that_ends_without_a_signal_is_bad_and_its_last_words_are_told(
    empty: Cli,
) -> None:
    settings(empty, command=["sh", "-c", "echo who are you; exit 4"], budget_attempts=3)
    lines = empty("doctor", "--agent").splitlines()
    assert empty.code == 2
    assert lines[-1] == "Next (agent turn): try again: loopwright doctor --agent"
    assert "exit code 4" in lines[-2]


def test_quick_runs_nothing_and_so_does_a_doctor_that_found_something_bad(
    empty: Cli, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    settings(empty, command=["true"], verify=[f"touch {mark}"])
    empty("doctor", "--quick")
    settings(empty, command=["no-such-program-here"], verify=[f"touch {mark}"])
    assert empty("doctor").splitlines()[-1].startswith("Next (command): ")
    assert "were not tried" in empty.err
    assert not mark.exists()


def test_gates_are_tried_in_the_sandbox_where_one_is_set(empty: Cli) -> None:
    if not gives(isolation="container"):
        return
    inside = f"git log -1 && ! test -e {empty.repo}/loopwright.toml"
    settings(
        empty,
        command=["sh", "-c", SIGNAL],
        verify=[inside],
        isolation="container",
        budget_attempts=3,
        sandbox_readable=[str(ROOT), sys.prefix],
    )
    said = empty("doctor", "--agent")
    assert "succeeded on" in said, said
    assert "in the sandbox" in said


@pytest.mark.parametrize(
    ("environ", "passed", "level", "told"),
    [
        ({}, (), "warn", "claude: no sign-in found"),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "t"}, (), "ok", "claude: signed in"),
        (
            {"ANTHROPIC_API_KEY": "k"},
            (),
            "warn",
            "claude: no sign-in found; ANTHROPIC_API_KEY is set here and not passed on",
        ),
        ({"ANTHROPIC_API_KEY": "k"}, ("ANTHROPIC_API_KEY",), "ok", "gets ANTHROPIC_API_KEY"),
        (
            {"ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_OAUTH_TOKEN": "t"},
            (),
            "ok",
            "claude: signed in; ANTHROPIC_API_KEY is set here and not passed on",
        ),
    ],
)
def test_a_key_that_is_set_and_withheld_is_named(
    tmp_path: Path, environ: dict[str, str], passed: tuple[str, ...], level: str, told: str
) -> None:
    found = _sign_in(built_in("claude"), {"HOME": str(tmp_path), **environ}, passed)
    assert (found.level, told in found.found) == (level, True), found
    assert bool(found.mend) is (level != "ok")
