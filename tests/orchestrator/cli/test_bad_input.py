"""Whatever is typed or damaged: one line that says what to do, a known exit code, no traceback."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lifecycle.paths import Paths
from orchestrator.cli.main import COMMANDS, main

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.filled import Cli

READING = (
    ("show", "agent-T001"),
    ("show", "agent-T001", "--why"),
    ("events", "agent-T001"),
    ("logs", "agent-T001"),
    ("summary", "agent-T001"),
    ("export", "agent-T001"),
)


def complaint(cli: Cli) -> str:
    assert cli.code == 2
    assert "Traceback" not in cli.err
    assert "internal error" not in cli.err
    assert cli.err.startswith(("loopwright", "usage: loopwright"))
    return cli.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(empty: Cli, name: str) -> None:
    text = empty.bare(name, "--help")
    assert empty.code == 0
    assert text.startswith(f"usage: loopwright {name}")
    assert f"  loopwright {name}" in text
    assert "example" in text


def test_the_help_fits_a_small_screen_and_names_every_command(empty: Cli) -> None:
    lines = empty.bare("--help").splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    named = {word for line in lines if line.startswith("  ") for word in line.split()}
    assert set(COMMANDS) <= named


def test_every_command_that_people_script_against_exists() -> None:
    said = (
        "init doctor demo run up down add service worker ps show diff review events logs summary "
        "guide pause resume stop unblock answer accept reject signal tasks plan settings notify "
        "hooks pr instances agents costs mcp audit export import schema serve completion"
    )
    assert set(said.split()) == set(COMMANDS)


def test_the_long_help_says_what_each_command_does(empty: Cli) -> None:
    text = empty.bare("help", "all")
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []
    assert "no command 'al'" in (empty.bare("help", "al"), empty.err)[1]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_an_unknown_option_is_refused_by_every_command(empty: Cli, name: str) -> None:
    empty.bare(name, "--no-such-option")
    assert complaint(empty)


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_an_unknown_agent_is_refused_with_a_near_one(filled: Cli, command: tuple[str, ...]) -> None:
    name, _, *more = command
    filled(name, "agent-T00", *more)
    assert "there is no lifecycle 'agent-T00' in" in complaint(filled)


def test_a_task_id_will_do_in_place_of_an_agent_id(filled: Cli) -> None:
    filled("show", "T003")
    assert filled.code == 0
    assert filled.out.startswith("agent-T003: ")


@pytest.mark.parametrize("command", READING, ids=" ".join)
@pytest.mark.parametrize("agent", ["../../etc", "-", "", "a b", "\x1b[31m", "x" * 5000])
def test_a_name_that_is_not_an_id_is_refused(
    filled: Cli, command: tuple[str, ...], agent: str
) -> None:
    name, _, *more = command
    filled(name, agent, *more)
    assert "\x1b" not in complaint(filled)


@pytest.mark.parametrize(
    "command", [*READING, ("pause", "agent-T001"), ("hooks", "list")], ids=" ".join
)
def test_a_repository_where_nothing_ran_is_told(empty: Cli, command: tuple[str, ...]) -> None:
    empty(*command)
    told = complaint(empty)
    assert "no loop ran there yet" in told or command[0] == "logs"
    assert not Paths.of(empty.repo).root.exists()


@pytest.mark.parametrize(
    "args",
    [
        ("ps", "--limit", "0"),
        ("ps", "--limit", "5000"),
        ("ps", "--limit", "many"),
        ("ps", "--cursor", "-1"),
        ("ps", "--state", "nonsense"),
        ("ps", "stray"),
        ("show",),
        ("events", "agent-T001", "--tail", "0"),
        ("logs", "agent-T001", "one"),
        ("logs", "agent-T001", "--follow", "--json"),
        ("logs", "agent-T001", "--follow", "--gate", "1"),
        ("logs", "agent-T001", "--gate", "0"),
        ("logs", "agent-T001", "--gate", "1", "--setup", "1"),
        ("summary", "agent-T001", "0"),
        ("summary", "edit"),
        ("summary", "edit", "agent-T001", "--file", "/no/such/file"),
        ("summary", "edit", "agent-T001"),
        ("summary", "approve", "agent-T001"),
        ("export",),
        ("export", "agent-T001", "--all"),
        ("export", "--all", "--output", "/no/such/folder/file"),
        ("pause", "agent-T001", "--turns", "0"),
        ("schema",),
        ("schema", "nonsense"),
        ("completion", "powershell"),
    ],
    ids=" ".join,
)
def test_bad_arguments_are_refused(
    filled: Cli, args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    if args[0] in ("schema", "completion"):
        filled.bare(*args)
    else:
        filled(*args)
    assert complaint(filled)


@pytest.mark.parametrize("command", [("ps",), *READING, ("doctor",), ("init",)], ids=" ".join)
def test_a_folder_without_a_repository_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert main([*command, "--repo", str(tmp_path)]) == 2
    assert "is not in a git repository" in capsys.readouterr().err
    assert main([*command, "--repo", str(tmp_path / "gone")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_current_folder_without_a_repository_is_told_except_by_the_doctor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ps"]) == 2
    assert "give --repo DIR" in capsys.readouterr().err
    main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert checks[-1]["level"] == "warn"
    assert "is not in a git repository" in checks[-1]["found"]


def damage(cli: Cli) -> Path:
    database = Paths.of(cli.repo).database
    database.parent.mkdir(mode=0o700)
    database.write_bytes(b"this is no database\n" * 500)
    return database


@pytest.mark.parametrize("command", [("ps",), ("ps", "--cursor", "9"), *READING], ids=" ".join)
def test_a_damaged_database_is_named_and_never_lost(empty: Cli, command: tuple[str, ...]) -> None:
    database = damage(empty)
    empty(*command)
    assert "is damaged" in complaint(empty)
    kept = [path for path in database.parent.iterdir() if path.name.startswith("state.db")]
    assert any(path.read_bytes().startswith(b"this is no database") for path in kept)


def test_the_doctor_names_a_damaged_database_and_leaves_it_where_it_is(empty: Cli) -> None:
    database = damage(empty)
    checks = {each["what"]: each for each in json.loads(empty("doctor", "--json"))["checks"]}
    assert empty.code == 2
    assert checks["records"]["level"] == "bad"
    assert "is damaged" in checks["records"]["found"]
    assert database.exists()


@pytest.mark.parametrize("command", [("ps",), *READING, ("doctor",)], ids=" ".join)
def test_a_database_of_a_newer_version_is_refused_untouched(
    empty: Cli, command: tuple[str, ...]
) -> None:
    database = Paths.of(empty.repo).database
    database.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 999")
        connection.execute("CREATE TABLE theirs (x)")
    before = database.read_bytes()
    empty(*command)
    assert empty.code == 2
    assert "newer Loopwright" in empty.out + empty.err
    assert database.read_bytes() == before


@pytest.mark.parametrize("command", [("show", "agent-T001"), ("summary", "agent-T001"), ("costs",)])
def test_a_bad_settings_file_is_named_with_its_line(empty: Cli, command: tuple[str, ...]) -> None:
    (empty.repo / "loopwright.toml").write_text("\nmax_retrys = 1\n")
    empty(*command)
    assert f"{empty.repo / 'loopwright.toml'}, line 2" in complaint(empty)


def test_a_signal_outside_of_an_agent_is_refused(empty: Cli) -> None:
    empty.bare("signal", "task_complete")
    assert "not set: LOOPWRIGHT_COMM_FILE" in complaint(empty)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "required: TYPE"),
        ("task_complete --blocked-on", "expected at least one argument"),
        ("nonsense", "use one of: task_complete, blocked"),
        ("blocked", "blocked"),
        ("question", "question"),
        ("pr_created --reply r1abc", "'r1abc' names no remark: write --reply ID=TEXT"),
        ("pr_created --reply r1=x --reply r1=y", "two replies to remark 'r1'"),
        ("pr_created --reply r1=Done.", "the summary names no remark"),
    ],
)
def test_a_signal_that_says_too_little_is_refused_and_nothing_is_written(
    empty: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    mailbox = in_an_agent(tmp_path, monkeypatch)
    empty.bare("signal", *words.split())
    assert said in complaint(empty)
    assert not mailbox.exists()


def test_a_signal_with_all_its_words_is_written_for_the_runner(
    empty: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = in_an_agent(tmp_path, monkeypatch)
    empty.bare("signal", "blocked", "--blocked-on", "T002", "T003", "--reason", "no API")
    assert (empty.code, empty.out) == (0, "")
    assert empty.err.count("\n") == 1
    word = json.loads(mailbox.read_text())["agent-T001"]["breakpoint"]
    assert (word["blocked_on"], word["reason"]) == (["T002", "T003"], "no API")
    monkeypatch.setenv("LOOPWRIGHT_REMARKS", "r1abc r2def")
    empty.bare("signal", "pr_created", "--reply", "r1abc=a=b", "--reply", "r2def=Left as it is")
    word = json.loads(mailbox.read_text())["agent-T001"]["breakpoint"]
    assert word["replies"] == {"r1abc": "a=b", "r2def": "Left as it is"}


def in_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set what an agent is given; returns its mailbox."""
    mailbox = tmp_path / "communications.json"
    for name, value in (
        ("COMM_FILE", str(mailbox)),
        ("AGENT_ID", "agent-T001"),
        ("TASK_ID", "T001"),
        ("SPAWN_ID", "s"),
    ):
        monkeypatch.setenv(f"LOOPWRIGHT_{name}", value)
    return mailbox


@pytest.mark.parametrize("command", [("run", "x", "--command", "true"), ("init",)], ids=" ".join)
@pytest.mark.parametrize(
    ("kind", "said"),
    [(["--bare"], "is a bare repository"), ([], "has no commit yet")],
    ids=["bare", "no commit"],
)
def test_a_repository_that_cannot_be_worked_in_is_named_with_what_to_do(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    kind: list[str],
    said: str,
) -> None:
    subprocess.run(["git", "init", "--quiet", *kind, str(tmp_path)], check=True)
    before = set(tmp_path.iterdir())
    assert main([*command, "--repo", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert ("commit --allow-empty" in told) is (not kind)
    assert set(tmp_path.iterdir()) == before


def test_packages_of_the_current_folder_that_hide_ours_are_named(empty: Cli) -> None:
    theirs = empty.repo / "lifecycle"
    theirs.mkdir()
    (theirs / "__init__.py").touch()
    Paths.of(empty.repo).root.mkdir(mode=0o700)
    Paths.of(empty.repo).database.touch()
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.cli.main", "ps"], cwd=empty.repo, check=False,
        capture_output=True, text=True, env=os.environ | {"PYTHONSAFEPATH": ""},
    )  # fmt: skip
    assert done.returncode == 2
    assert str(theirs) in done.stderr
    assert "use the `loopwright` command" in done.stderr


def test_what_the_system_refuses_is_told_with_its_place(empty: Cli) -> None:
    Paths.of(empty.repo).root.touch()
    empty("run", "x", "--command", "true")
    assert empty.code == 2
    assert f"{Paths.of(empty.repo).root}: File exists; fix" in empty.err


@pytest.mark.parametrize("command", [*READING, ("pause", "agent-T001")], ids=" ".join)
def test_a_name_of_bytes_that_are_not_text_fits_nobody(
    filled: Cli, command: tuple[str, ...]
) -> None:
    name, _, *more = command
    filled(name, "b\udcff", *more)
    assert complaint(filled)


def test_a_tag_of_bytes_that_are_not_text_is_on_no_lifecycle(filled: Cli) -> None:
    assert json.loads(filled("ps", "--all", "--tag", "b\udcff", "--json"))["lifecycles"] == []
    assert filled.code == 0


def test_a_closed_standard_output_is_not_a_defect(filled: Cli) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m orchestrator.cli.main ps --all >&-"],
        check=False,
        cwd=filled.repo,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert "internal error" not in done.stderr


def test_a_repository_whose_path_is_not_text_is_refused_with_words(empty: Cli) -> None:
    odd = empty.repo.with_name("lat\udce4n")
    empty.repo.rename(odd)
    try:
        empty.bare("run", "x", "--command", "true", "--repo", str(odd))
        assert "is not valid UTF-8" in complaint(empty)
        empty.bare("doctor", "--repo", str(odd))
        assert empty.code == 2
        assert "rename it" in empty.out
        assert not Paths.of(odd).root.exists()
    finally:
        odd.rename(empty.repo)
