"""The commands that only look, on a repository that a real loop has filled."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.paths import Paths
from lifecycle.store.lock import RunnerLock
from orchestrator.wording.json_schemas import SCHEMAS, schema
from tests.orchestrator.cli.schema_check import faults
from tests.orchestrator.filled import HOSTILE, TASKS

if TYPE_CHECKING:
    from tests.orchestrator.filled import Cli

ALL_IDS = [f"agent-{task.id}" for task in reversed(TASKS)]


def read_json(cli: Cli, *args: str, form: str | None = None) -> Any:
    """Run a command with --json; check its output against the schema that is promised for it."""
    value = json.loads(cli(*args, "--json"))
    assert cli.code == 0
    assert faults(schema(form or args[0]), value) == []
    return value


def ids(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:]]


# --- ps ---------------------------------------------------------------------------------------


def test_ps_lists_what_a_person_may_have_to_act_upon_newest_first(filled: Cli) -> None:
    assert ids(filled("ps")) == ALL_IDS  # of those over, it holds one that gave up by itself
    assert ids(filled("ps", "--all")) == ALL_IDS


def test_ps_shows_state_and_what_is_waited_for(filled: Cli) -> None:
    lines = {line.split()[0]: line for line in filled("ps", "--all").splitlines()}
    assert "queued" in lines["agent-T004"]
    assert lines["agent-T004"].endswith("  T003")
    assert "stopped" in lines["agent-T003"]
    assert lines["agent-T003"].endswith("  `loopwright up`, which continues it; then T009")
    assert lines["agent-T002"].split()[2:5] == ["done", "1", "0"]
    assert lines["agent-T002"].endswith("your accept or reject")
    assert "needs you" in lines["agent-T001"]
    assert "given up" in lines["agent-T005"]
    with RunnerLock(Paths.of(filled.repo).root, who="a test"):
        lines = {line.split()[0]: line for line in filled("ps").splitlines()}
    assert "waiting" in lines["agent-T003"]
    assert lines["agent-T003"].endswith("  T009")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--state", "given-up"], ["agent-T005"]),
        (["--state", "given up"], ["agent-T005"]),
        (["--state", "rejected"], []),
        (["--state", "stopped"], ["agent-T003"]),
        (["--state", "waiting"], []),
        (["--state", "queued"], ["agent-T004"]),
        (["--state", "Needs_You", "--state", "DONE"], ["agent-T002", "agent-T001"]),
        (["--tag", "blue"], ["agent-T003", "agent-T001"]),
        (["--tag", "blue", "--tag", "red"], ["agent-T003"]),
        (["--tag", "blue", "--state", "stopped"], ["agent-T003"]),
        (["--created-before", "1h"], []),
    ],
)
def test_ps_filters_by_state_however_it_is_spelled_and_by_tag(
    filled: Cli, options: list[str], expected: list[str]
) -> None:
    assert ids(filled("ps", *options)) == expected


def test_ps_pages_through_everything_once(filled: Cli) -> None:
    seen: list[str] = []
    more: list[str] = []
    for _ in range(9):
        page = read_json(filled, "ps", "--all", "--limit", "2", *more)
        seen += [row["agent_id"] for row in page["lifecycles"]]
        if page["next_cursor"] is None:
            break
        more = ["--cursor", str(page["next_cursor"])]
    assert seen == ALL_IDS


def test_a_later_page_has_the_same_rows_as_the_first(filled: Cli) -> None:
    whole = read_json(filled, "ps", "--all")["lifecycles"]
    later = read_json(filled, "ps", "--all", "--cursor", str(whole[0]["cursor"] + 1))
    waits = [row.pop("waiting_for") for row in (*whole, *later["lifecycles"])]
    assert later["lifecycles"] == whole
    assert any("T009" in each for each in waits)
    assert "There are more: add --cursor" in (filled("ps", "--limit", "1"), filled.err)[1]


def test_ps_says_that_no_runner_is_alive_only_when_none_is(filled: Cli) -> None:
    filled("ps")
    assert "No runner is alive here. These 2 lifecycles do not move" in filled.err
    with RunnerLock(Paths.of(filled.repo).root, who="a test"):
        filled("ps")
        assert filled.err == ""
        assert read_json(filled, "ps")["runner"]["who"] == "a test"
    assert read_json(filled, "ps")["runner"] is None


def test_ps_prints_bare_ids_for_programs(filled: Cli) -> None:
    assert filled("ps", "--all", "--ids").splitlines() == ALL_IDS
    assert filled.err == ""


def test_an_empty_repository_gets_a_friendly_word(empty: Cli) -> None:
    assert "Nothing is under way here. Start with: loopwright run" in empty("ps")
    assert empty.code == 0
    assert read_json(empty, "ps") == {"lifecycles": [], "next_cursor": None, "runner": None}
    assert empty("ps", "--ids") == ""


def test_a_filter_that_nothing_fits_is_told_apart_from_an_empty_repository(filled: Cli) -> None:
    assert "No lifecycle matches" in filled("ps", "--state", "accepted")


def test_without_repo_the_repository_around_here_is_meant(
    filled: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = filled.repo / ".git" / "refs"
    monkeypatch.chdir(inside)
    assert "agent-T003" in filled.bare("ps")
    workspace = Path(read_json(filled, "show", "agent-T001")["lifecycle"]["facts"]["workspace"])
    for folder in (workspace, workspace.parent):
        monkeypatch.chdir(folder)
        assert "agent-T003" in filled.bare("ps")


# --- show -------------------------------------------------------------------------------------


def test_show_tells_state_reason_attempts_and_files(filled: Cli) -> None:
    text = filled("show", "agent-T005")
    assert "agent-T005: Fail" in text
    assert "state      given up for" in text
    assert "2 of 2 retries used; the last: error: exit code 1: no" in text
    assert "attempts   3, retries used: 2\n" in text
    assert str(Paths.of(filled.repo).root / "logs" / "agent-T005") in text
    assert text.count("error: exit code 1: no\n") == 3


def test_show_why_is_one_line_and_the_same_as_in_json(filled: Cli) -> None:
    line = filled("show", "agent-T003", "--why")
    assert line.count("\n") == 1
    assert "signalled `blocked` on T009" in line
    assert read_json(filled, "show", "agent-T003")["why"] == line.strip()


def test_every_lifecycle_can_be_shown_in_both_forms(filled: Cli) -> None:
    for agent in ALL_IDS:
        assert filled("show", agent)
        assert filled.code == 0
        assert read_json(filled, "show", agent)["lifecycle"]["agent_id"] == agent


def test_variables_of_agents_are_never_shown(filled: Cli) -> None:
    for args in (("show", "agent-T003", "--json"), ("export", "--all"), ("show", "agent-T003")):
        assert "sesame" not in filled(*args)


def test_bad_settings_are_named_before_anything_is_shown(
    filled: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_MAX_RETRYS", "1")
    filled("show", "agent-T003")
    assert filled.code == 2
    assert "LOOPWRIGHT_MAX_RETRYS" in filled.err


# --- events -----------------------------------------------------------------------------------


def test_events_are_one_line_each_with_rule_and_words(filled: Cli) -> None:
    lines = filled("events", "agent-T001").splitlines()
    journal = read_json(filled, "events", "agent-T001")
    assert len(lines) == len(journal)
    assert "working -> stopping" in lines[3]
    assert lines[3].endswith("attempt 1 ended with error and exit code 3: red txt  (exited)")


def test_events_can_be_cut_at_both_ends(filled: Cli) -> None:
    journal = read_json(filled, "events", "agent-T001")
    assert read_json(filled, "events", "agent-T001", "--tail", "2") == journal[-2:]
    assert read_json(filled, "events", "agent-T001", "--after", "3") == journal[3:]
    assert (
        read_json(filled, "events", "agent-T001", "--tail", "5000", "--after", "3") == journal[3:]
    )
    lines = filled("events", "agent-T001", "--jsonl").splitlines()
    assert [json.loads(line) for line in lines] == journal


def test_following_without_a_runner_ends_at_once_and_says_why(filled: Cli) -> None:
    assert len(filled("events", "agent-T003", "--follow").splitlines()) > 3
    assert "No runner is alive here" in filled.err
    lines = filled("events", "agent-T005", "-f", "--json").splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert filled.err == ""


# --- logs -------------------------------------------------------------------------------------


def test_logs_are_of_the_latest_attempt_or_of_the_one_named(filled: Cli) -> None:
    assert filled("logs", "agent-T001") == "second\n"
    assert filled("logs", "agent-T001", "1").splitlines()[0] == "first"
    assert filled("logs", "agent-T001", "1", "--tail", "1") == f"{HOSTILE}\n"
    assert filled("logs", "agent-T001", "1", "--tail", "99").splitlines()[0] == "first"


def test_logs_of_verify_commands_are_found(filled: Cli) -> None:
    assert filled("logs", "agent-T002", "--gate", "1") == "verified\n"
    filled("logs", "agent-T002", "--gate", "2")
    assert filled.code == 2
    assert "no log of verify command 2 of any attempt" in filled.err


def test_an_unknown_attempt_is_refused_with_those_there_are(filled: Cli) -> None:
    filled("logs", "agent-T001", "7")
    assert filled.code == 2
    assert "there are logs of the attempts 1, 2" in filled.err
    filled("logs", "agent-T004")
    assert "nothing was printed yet" in filled.err


def test_logs_as_json_name_path_and_text(filled: Cli) -> None:
    value = read_json(filled, "logs", "agent-T001", "1", "--tail", "1")
    assert (value["attempt"], value["text"]) == (1, f"{HOSTILE}\n")
    assert value["path"] == str(Paths.of(filled.repo).log("agent-T001", 1))


def test_following_a_log_without_a_runner_prints_it_and_ends(filled: Cli) -> None:
    assert filled("logs", "agent-T001", "--follow") == "second\n"
    assert "==> attempt 2" in filled.err
    assert filled("logs", "agent-T004", "--follow") == ""
    assert filled.code == 0


def test_the_freed_middle_of_a_log_is_left_out(filled: Cli, request: pytest.FixtureRequest) -> None:
    path = Paths.of(filled.repo).log("agent-T005", 7)
    request.addfinalizer(lambda: path.unlink(missing_ok=True))
    path.write_bytes(b"head\n" + b"\0" * 200_000 + b"tail\nlast")
    assert filled("logs", "agent-T005", "7") == "head\ntail\nlast"
    assert filled("logs", "agent-T005", "7", "--tail", "2") == "tail\nlast"


# --- what agents say on a terminal ------------------------------------------------------------


class _Terminal:
    """Says of standard output that it is a terminal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "90")
        monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize("no_color", [True, False])
def test_words_of_agents_cannot_fool_a_terminal(
    filled: Cli,
    monkeypatch: pytest.MonkeyPatch,
    no_color: bool,  # noqa: FBT001  # a parameter of the case
) -> None:
    _Terminal(monkeypatch)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    for args in (
        ("ps", "--all"),
        ("show", "agent-T001"),
        ("events", "agent-T001"),
        ("logs", "agent-T001", "1"),
        ("summary", "agent-T001"),
    ):
        text = filled(*args)
        assert "\u202e" not in text
        assert "red \x1b" not in text
        if no_color or args[0] != "ps":
            assert "\x1b" not in text
    assert ("\x1b[" in filled("ps", "--all")) is not no_color


def test_a_list_fits_the_width_of_the_terminal(
    filled: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    assert max(map(len, filled("ps").splitlines())) <= 90
    assert max(map(len, filled("show", "agent-T001").splitlines()[:4])) <= 90


# --- summary ----------------------------------------------------------------------------------


def test_the_next_summary_is_shown_as_it_will_be(filled: Cli) -> None:
    value = read_json(filled, "summary", "agent-T001")
    assert (value["attempt"], value["path"], value["edited"]) == (3, None, False)
    assert "Summary for attempt 3 at task T001" in value["text"]
    assert "draft.txt" in value["text"]
    assert "as it will be" in (filled("summary", "agent-T001"), filled.err)[1]


def test_a_summary_that_an_attempt_began_with_is_shown_from_its_file(filled: Cli) -> None:
    value = read_json(filled, "summary", "agent-T001", "2")
    assert value["path"] == str(Paths.of(filled.repo).summary("agent-T001", 2))
    assert "Summary for attempt 2" in filled("summary", "agent-T001", "2")
    assert read_json(filled, "summary", "agent-T002")["attempt"] == 1


def test_the_difference_to_the_summary_before_is_shown(filled: Cli) -> None:
    value = read_json(filled, "summary", "agent-T001", "--diff")
    assert value["against"] == 2
    assert "+# Summary for attempt 3" in value["diff"]
    assert "-# Summary for attempt 2" in filled("summary", "agent-T001", "--diff")
    filled("summary", "agent-T002", "1", "--diff")
    assert "no earlier summary" in filled.err


def test_an_unknown_summary_is_refused_with_those_there_are(filled: Cli) -> None:
    filled("summary", "agent-T001", "9")
    assert filled.code == 2
    assert "there are those of: 1, 2" in filled.err


def test_a_persons_text_takes_the_place_of_the_next_summary(
    filled: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Paths.of(filled.repo).edited("agent-T003", 2)
    file = tmp_path / "text.md"
    file.write_text("Use the new API.\n")
    filled("summary", "edit", "agent-T003", "--file", str(file))
    assert (filled.code, path.read_text()) == (0, "Use the new API.\n")
    assert f"Attempt 2 will be told this text: {path}" in filled.err
    value = read_json(filled, "summary", "agent-T003")
    assert value["edited"] is True
    assert "Use the new API." in value["text"]

    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "More." >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    filled("summary", "edit", "agent-T003")
    assert path.read_text() == "Use the new API.\nMore."
    monkeypatch.setenv("EDITOR", "true")
    filled("summary", "edit", "agent-T003")
    assert "Nothing was changed" in filled.err
    monkeypatch.setenv("EDITOR", "false")
    filled("summary", "edit", "agent-T003")
    assert (filled.code, "ended with code 1" in filled.err) == (2, True)

    file.write_text("x" * 17_000)
    filled("summary", "edit", "agent-T003", "--file", str(file))
    assert (filled.code, "shorten it" in filled.err) == (2, True)
    file.write_text("\n")
    filled("summary", "edit", "agent-T003", "--file", str(file))
    assert "gets the rendered summary again" in filled.err
    assert not path.exists()


def test_a_lifecycle_that_is_over_has_no_summary_to_edit(filled: Cli, tmp_path: Path) -> None:
    file = tmp_path / "text.md"
    file.write_text("x")
    filled("summary", "edit", "agent-T005", "--file", str(file))
    assert filled.code == 2
    assert "no attempt follows" in filled.err


# --- export and schema ------------------------------------------------------------------------


def test_export_writes_everything_about_one_or_all(filled: Cli, tmp_path: Path) -> None:
    one = read_json(filled, "export", "agent-T001")["lifecycles"]
    assert len(one) == 1
    assert one[0]["journal"] == read_json(filled, "events", "agent-T001")
    assert [row["outcome"] for row in one[0]["attempts"]] == ["error", "question"]
    file = tmp_path / "all.json"
    assert filled("export", "--all", "--output", str(file)) == ""
    assert "5 lifecycles written" in filled.err
    assert file.stat().st_mode & 0o777 == 0o600
    whole = json.loads(file.read_text())
    assert faults(schema("export"), whole) == []
    assert [each["record"]["agent_id"] for each in whole["lifecycles"]] == ALL_IDS


def test_an_export_that_fails_leaves_the_file_that_was_there(filled: Cli, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_text("precious")
    filled("export", "nobody", "--output", str(file))
    assert filled.code == 2
    assert file.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [file]


def test_an_export_follows_a_link_and_leaves_it_a_link(filled: Cli, tmp_path: Path) -> None:
    file, link = tmp_path / "all.json", tmp_path / "link"
    file.write_text("old")
    link.symlink_to(file.name)
    filled("export", "--all", "--output", str(link))
    assert link.is_symlink()
    assert len(json.loads(file.read_text())["lifecycles"]) == len(ALL_IDS)


def test_an_export_writes_into_what_is_not_a_file_and_never_replaces_it(
    filled: Cli, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        filled("export", "agent-T001", "--output", str(pipe))
        assert pipe.is_fifo()
        assert os.read(end, 1) == b"{"
    finally:
        os.close(end)


def test_an_export_to_a_dash_is_one_to_the_output(
    filled: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(json.loads(filled("export", "--all", "--output", "-"))["lifecycles"]) == len(ALL_IDS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_schema_is_printed(empty: Cli, name: str) -> None:
    value = json.loads(empty.bare("schema", name))
    assert value["$schema"].startswith("https://json-schema.org/")


def test_schemas_of_files_explain_their_fields(empty: Cli) -> None:
    settings = json.loads(empty.bare("schema", "settings"))
    assert settings["properties"]["max_retries"]["description"].startswith(
        "Retries after failed attempts"
    )
    plan = json.loads(empty.bare("schema", "plan"))
    assert "agent_id" not in plan["$defs"]["Agent"].get("required", [])
    assert plan["$defs"]["Task"]["properties"]["verify"]["description"]
