"""`loopwright agents`: what is installed, and the verdict on a recorded run."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.cli.commands.agents import run
from orchestrator.cli.error_boundary import guarded
from orchestrator.control.agents import install_of
from runtime.agents.adapter import Adapter
from runtime.agents.parsing.parser import Parser
from tests.runtime.agents.recorded import ALL, CODES, FOLDER

if TYPE_CHECKING:
    from pathlib import Path

PUBLIC = frozenset(
    [
        "completed",
        "rate_limit",
        "quota",
        "billing",
        "auth",
        "overloaded",
        "network",
        "context_overflow",
        "model",
        "refused",
        "denied",
        "max_turns",
        "budget",
        "loop",
        "hang",
        "timeout",
        "crash",
        "killed",
        "error",
    ]
)


def agents(*args: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = guarded(run, "agents", list(args))
    return code, out.getvalue(), err.getvalue()


def outcome(name: str, stdout: Path, code: int, *more: str) -> dict[str, Any]:
    args = ("outcome", name, "--stdout", str(stdout), "--exit-code", str(code), "--json", *more)
    done, out, err = agents(*args)
    assert (done, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that alone is on the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_what_is_installed_is_told_with_version_and_what_was_tested(programs: Path) -> None:
    claude = program(programs, "claude", "echo '2.1.326 (Claude Code)'")
    program(programs, "codex", "echo codex-cli 0.170.1")
    program(programs, "gemini", "echo no node >&2; exit 1")
    done, out, _ = agents("--json")
    assert done == 0
    found = {each["name"]: each for each in json.loads(out)}
    assert list(found) == ["claude", "codex", "gemini", "opencode", "copilot", "command"]
    assert found["claude"]["path"] == str(claude)
    assert (found["claude"]["version"], found["claude"]["tested"]) == ("2.1.326", True)
    assert (found["codex"]["version"], found["codex"]["tested"]) == ("0.170.1", False)
    assert found["codex"]["versions_tested"] == ["0.169.0"]
    assert found["gemini"]["problem"] == "asked for its version it said: no node"
    assert (found["opencode"]["installed"], found["opencode"]["version"]) == (False, None)
    assert found["command"]["installed"]


def test_the_list_for_people_says_how_to_get_what_is_missing(programs: Path) -> None:
    program(programs, "opencode", "echo 1.18.33")
    done, out, _ = agents()
    assert done == 0
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert rows["codex"].endswith(" npm install -g @openai/codex@0.169.0")
    assert "1.18.33" in rows["opencode"]
    assert str(programs) in rows["opencode"]


def test_a_version_that_was_not_tested_is_marked(programs: Path) -> None:
    program(programs, "claude", "echo '2.1.197 (Claude Code)'")
    program(programs, "opencode", "echo 1.18.33")
    _, out, _ = agents()
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "2.1.197 (not tested)" in rows["claude"]
    assert "not tested" not in rows["opencode"]


def test_how_to_install_names_the_tested_version(programs: Path) -> None:
    del programs
    _, out, _ = agents("--json")
    found = {each["name"]: each["install"] for each in json.loads(out)}
    assert found["claude"] == "npm install -g @anthropic-ai/claude-code@2.1.326"
    assert found["command"] is None
    pip = Adapter(name="x", title="X", parser=Parser, tested=("1.2",), install="pip install x")
    assert install_of(pip) == "pip install x"


def test_asking_for_a_version_gives_no_secret_and_prints_nothing_dangerous(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    program(programs, "claude", 'printf "\\033[31m%s" "${ANTHROPIC_API_KEY-none} here"')
    _, out, _ = agents()
    assert "none here" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(("name", "case"), ALL)
def test_a_recorded_run_is_judged_with_the_promised_words(name: str, case: str) -> None:
    found = outcome(name, FOLDER / name / f"{case}.stdout", CODES[name][case])
    assert found["outcome"] in PUBLIC
    assert {"reset_at", "session_id", "model", "usage", "cost_usd", "last_words"} <= set(found)


def test_what_only_a_runner_can_tell_is_not_claimed(tmp_path: Path) -> None:
    said = tmp_path / "out"
    said.write_text("")
    for name, code, public, fine in (
        ("command", 127, "error", "environment"),
        ("gemini", 44, "error", "environment"),
        ("command", 1, "error", "error"),
        ("command", 0, "completed", "completed"),
    ):
        found = outcome(name, said, code)
        assert (found["outcome"], found["in_a_loop"]) == (public, fine)


def test_the_finer_name_that_a_loop_uses_is_told_beside_the_promised_one(tmp_path: Path) -> None:
    said = tmp_path / "out"
    said.write_text("")
    args = ("outcome", "command", "--stdout", str(said), "--exit-code")
    assert agents(*args, "127")[1].startswith("outcome     error (in a loop: environment)\n")
    assert agents(*args, "1")[1].startswith("outcome     error\n")


def test_standard_error_of_a_failed_run_is_read(tmp_path: Path) -> None:
    said, complained = tmp_path / "out", tmp_path / "err"
    said.write_text("")
    complained.write_text("x" * 200_000 + "\nInvalid API key. Please run /login\n")
    found = outcome("claude", said, 1, "--stderr", str(complained))
    assert found["outcome"] == "auth"
    assert "`loopwright resume`" in found["what_to_do"]


def test_a_line_too_long_is_passed_over_and_told(tmp_path: Path) -> None:
    said = tmp_path / "out"
    good = (FOLDER / "claude" / "ok.stdout").read_bytes()
    said.write_bytes(b'{"type":"user","x":"' + b"y" * (2 << 20) + b'"}\n' + good)
    found = outcome("claude", said, 0)
    assert (found["outcome"], found["notes"]) == ("completed", {"too_long": 1})


def test_people_see_why_and_what_to_do() -> None:
    path = FOLDER / "claude" / "oauth_limit.stdout"
    _, out, _ = agents("outcome", "claude", "--stdout", str(path), "--exit-code", "1")
    assert out.startswith("outcome     rate_limit\n")
    assert "You've hit your 5-hour limit" in out
    assert "limit ends" in out


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("outcome", "claude"), "needs the adapter's NAME"),
        (("outcome", "claude", "--stdout", "/none", "--exit-code", "1"), "cannot be read"),
        (("outcome", "clod", "--stdout", "/none", "--exit-code", "1"), "there are: claude"),
        (("list", "claude"), "belong to"),
        (("outcome", "claude", "--stdout", ".", "--exit-code", "x"), "invalid int"),
    ],
)
def test_a_mistake_is_told_in_one_line(args: tuple[str, ...], told: str) -> None:
    code, out, err = agents(*args)
    assert (code, out) == (2, "")
    assert told in err
