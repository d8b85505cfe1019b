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
from orchestrator.approval.held_settings import OF_THE_USER
from orchestrator.config.field_docs import field_docs
from orchestrator.config.settings import load_settings
from orchestrator.init import fresh_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.filled import Cli


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
    assert 'Next: `loopwright doctor` checks the machine; `loopwright run "TEXT"`' in text
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


def test_a_fresh_file_limits_each_task_changes_nothing_else_and_explains_all(
    empty: Cli, programs: Path
) -> None:
    del programs
    empty("init")
    text = (empty.repo / "loopwright.toml").read_text()
    limits = {"budget_hours": 8.0, "budget_attempts": 30}
    assert tomllib.loads(text) == limits
    docs = field_docs(Settings)
    for name in Settings.model_fields:
        if name in OF_THE_USER:
            assert f"{name} = " not in text, "it would be refused there"
            continue
        assert f"# {name} = " in text or name in limits
        assert docs[name] in text


def test_every_default_in_a_fresh_file_is_valid_when_it_is_taken_in_force() -> None:
    lines = fresh_file({}).splitlines()
    shown = {line[2:] for line in lines if line.startswith("# ") and " = " in line}
    settings = [line for line in shown if line.split(" = ")[0] in Settings.model_fields]
    values = tomllib.loads("\n".join(settings))
    assert set(values) == set(Settings.model_fields) - OF_THE_USER
    examples = {name for name, field in Settings.model_fields.items() if field.default is None}
    assert Settings.model_validate(values).model_dump(exclude=examples) == Settings().model_dump(
        exclude=examples
    )


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
    assert 'verify = ["cargo test --quiet"] is a guess' in said
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
