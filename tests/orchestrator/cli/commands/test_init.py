"""`init` prepares a repository once, and harmlessly again."""

from __future__ import annotations

import json
import subprocess
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, ClassVar

import pytest

from lifecycle.settings import Settings
from orchestrator.config.settings import load_settings
from orchestrator.proposals.agents_here import AgentHere
from orchestrator.proposals.first_settings import FirstSettings, Found, file_of
from tests.orchestrator.ptykit import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.filled import Cli

CHOSEN = FirstSettings(agents=("claude", "codex"))


def git(repo: Path, *args: str) -> str:
    return subprocess.run(
        ["git", *args], cwd=repo, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the whole PATH beside git's own."""
    folder = tmp_path / "programs"
    folder.mkdir()
    git_program = subprocess.run(
        ["sh", "-c", "command -v git"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (folder / "git").symlink_to(git_program)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(programs: Path, *names: str) -> None:
    for name in names:
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)


def test_init_writes_settings_and_excludes_and_says_what_is_next(empty: Cli) -> None:
    text = empty("init")
    assert empty.code == 0
    assert f"done  {empty.repo / 'loopwright.toml'} is written" in text
    assert 'Next: `loopwright doctor` tries all of it; `loopwright run "TEXT"`' in text
    lines = (empty.repo / ".git" / "info" / "exclude").read_text().splitlines()
    assert ".loopwright/" in lines
    assert "/communications.json" in lines
    (empty.repo / "communications.json").write_text("{}")
    assert git(empty.repo, "status", "--porcelain") == "?? loopwright.toml\n"


def test_init_again_changes_nothing(empty: Cli) -> None:
    empty("init")
    file = empty.repo / "loopwright.toml"
    file.write_text("max_retries = 3\n")
    exclude = empty.repo / ".git" / "info" / "exclude"
    before = exclude.read_bytes()
    text = empty("init")
    assert "done" not in text
    assert file.read_text() == "max_retries = 3\n"
    assert exclude.read_bytes() == before


def test_a_fresh_file_is_short_and_only_limits_each_task(empty: Cli, programs: Path) -> None:
    del programs
    said = empty("init")
    text = (empty.repo / "loopwright.toml").read_text()
    assert tomllib.loads(text) == {"budget_hours": 8.0, "budget_attempts": 30}
    assert len([line for line in text.splitlines() if line]) <= 18
    assert max(map(len, text.splitlines())) <= 90
    assert "look  agent: none of the known programs is on PATH" in said


def test_every_line_of_a_fresh_file_is_valid_when_it_is_taken_in_force() -> None:
    found = Found(
        agents=(
            AgentHere(
                "claude", "/bin/claude", signed_in=False, keys=("ANTHROPIC_API_KEY",), login=""
            ),
        ),
        forge="gitlab",
    )
    shown = [line.removeprefix("# ") for line in file_of(found, CHOSEN).splitlines()]
    lines = [line for line in shown if line.split(" = ")[0] in Settings.model_fields]
    values = tomllib.loads("\n".join(lines))
    Settings.model_validate(values)
    assert values["agents"] == ["claude", "codex"]
    assert values["pass_env"] == ["ANTHROPIC_API_KEY"]
    assert values["providers"] == ["gitlab"]
    assert {"setup", "copy", "verify", "budget_hours", "max_live_agents"} <= values.keys()


@pytest.fixture
def signed_in(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install two programs; the second in the alphabet of ours has a sign-in."""
    install(programs, "claude", "codex")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    (tmp_path / "user/.codex").mkdir(parents=True)
    (tmp_path / "user/.codex/auth.json").write_text("{}")


@pytest.mark.usefixtures("signed_in")
def test_the_program_that_somebody_is_signed_in_to_is_proposed(
    empty: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    said = empty("init")
    assert "ok    agent: codex at " in said
    assert "not signed in; ANTHROPIC_API_KEY is set and withheld" in said
    assert load_settings(empty.repo, environ={}).adapter == "codex"


@pytest.mark.usefixtures("signed_in")
def test_on_a_terminal_three_questions_are_asked_and_enter_takes_the_proposal(empty: Cli) -> None:
    (empty.repo / "Cargo.toml").write_text("[package]\n")
    git(empty.repo, "add", "Cargo.toml")
    with Terminal(empty.repo, "init") as shown:
        shown.press("cloude\r")
        shown.shows("there is no agent program 'cloude'")
        shown.press("claude\r")
        shown.press("make check\r")
        shown.shows("At most how many dollars")
        shown.press("none\r")
        shown.shows("'none' is not a number above 0")
        shown.press("\r")
        text = shown.ends(0)
    assert max(map(len, text.splitlines())) <= 80
    written = load_settings(empty.repo, environ={})
    assert (written.adapter, written.verify) == ("claude", ("make check",))
    assert (written.budget_usd, written.budget_hours) == (20.0, 8.0)


@pytest.mark.usefixtures("signed_in")
def test_a_question_that_is_broken_off_writes_nothing(empty: Cli) -> None:
    exclude = empty.repo / ".git" / "info" / "exclude"
    before = exclude.read_bytes() if exclude.exists() else b""
    with Terminal(empty.repo, "init") as shown:
        shown.press("\r")
        shown.press("\x03", after="[none] > ")
        assert "Nothing was written." in shown.ends(130)
    assert not (empty.repo / "loopwright.toml").exists()
    assert (exclude.read_bytes() if exclude.exists() else b"") == before


@pytest.mark.parametrize(
    ("there", "dollars"),
    [(("claude",), 20.0), (("codex",), None), (("claude", "codex"), None), ((), None)],
)
def test_init_limits_dollars_only_where_every_program_here_tells_them(
    empty: Cli, programs: Path, there: tuple[str, ...], dollars: float | None
) -> None:
    install(programs, *there)
    said = empty("init")
    settings = load_settings(empty.repo, environ={})
    assert (settings.budget_hours, settings.budget_attempts) == (8.0, 30)
    assert settings.budget_usd == dollars
    assert "each task is limited: " in said
    assert ("budget_usd = 20.0" in said) == (dollars is not None)
    for each in there:  # none of the programs that are here is refused by what init wrote
        checks = json.loads(empty("doctor", "--json"))["checks"]
        assert [check for check in checks if check["what"] == "budget"] == [], each
        (empty.repo / "loopwright.toml").write_text(
            (empty.repo / "loopwright.toml")
            .read_text()
            .replace('adapter = "claude"', 'adapter = "codex"')
        )


def test_what_a_fresh_checkout_needs_is_proposed_when_its_program_is_there(
    empty: Cli, programs: Path
) -> None:
    (empty.repo / "Cargo.toml").write_text("[package]\n")
    git(empty.repo, "add", "Cargo.toml")
    assert (
        'cargo is not on PATH, so nothing is proposed for it; with it: verify = ["cargo'
        in empty("init")
    )
    assert load_settings(empty.repo, environ={}).verify == ()
    (empty.repo / "loopwright.toml").unlink()
    install(programs, "cargo", "codex")
    said = empty("init")
    settings = load_settings(empty.repo, environ={})
    assert (settings.verify, settings.adapter) == (("cargo test --quiet",), "codex")
    assert "ok    verify: cargo test --quiet" in said
    assert "target/" in (empty.repo / ".git" / "info" / "exclude").read_text()


def test_without_tests_init_says_what_to_write(empty: Cli, programs: Path) -> None:
    del programs
    (empty.repo / ".env").write_text("KEY=1\n")
    said = empty("init")
    assert 'write verify = ["COMMAND"] into loopwright.toml' in said
    assert ".env is not in fresh checkouts" in said
    assert "copy =" not in said


def test_settings_in_pyproject_stay_the_place_of_settings(empty: Cli) -> None:
    (empty.repo / "pyproject.toml").write_text("[tool.loopwright]\nmax_retries = 3\n")
    assert "the settings are in" in empty("init")
    assert not (empty.repo / "loopwright.toml").exists()


class _Host(BaseHTTPRequestHandler):
    """Answers as a forge does whom nobody has signed in to."""

    answer: ClassVar[tuple[str, int, dict[str, str], dict[str, object]]]

    def do_GET(self) -> None:
        path, status, headers, body = self.answer
        self.send_response(status if self.path == path else 404)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("forge", "answer"),
    [
        ("gitea", ("/api/v1/version", 200, {}, {"version": "1.15.11"})),
        ("gitlab", ("/api/v4/version", 401, {"X-Gitlab-Meta": "{}"}, {"message": "401"})),
        ("github", ("/api/v3/meta", 200, {}, {"verifiable_password_authentication": True})),
        (None, ("/", 200, {}, {})),
    ],
)
def test_a_host_whose_name_tells_no_forge_is_asked_which_it_runs(
    empty: Cli, forge: str | None, answer: tuple[str, int, dict[str, str], dict[str, object]]
) -> None:
    handler = type("Answers", (_Host,), {"answer": answer})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        git(empty.repo, "remote", "add", "origin", f"http://{host}/us/thing.git")
        text = empty("init")
        server.shutdown()
    written = tomllib.loads((empty.repo / "loopwright.toml").read_text())
    assert written.get("providers") == ([forge] if forge else None)
    if forge is None:
        assert "no forge that we know answers" in text
        assert "github or gitlab or gitea" in text
