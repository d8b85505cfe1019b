"""The scripted agent: each verb does what its help says."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from runtime import proc_table
from runtime.agents import scripted
from runtime.agents.script import mailbox_faults, steps
from runtime.processes import lineage_tag
from tests.runtime.process_fixtures import GRACE, Stage, alive, end, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.process import AgentProcess

AGENT = (
    sys.executable,
    "-c",
    "import sys; from runtime.agents.scripted import main; sys.exit(main())",
)
IDENTITY = {
    "LOOPWRIGHT_AGENT_ID": "agent-T001",
    "LOOPWRIGHT_TASK_ID": "T001",
    "LOOPWRIGHT_SPAWN_ID": "spawn-7",
    "LOOPWRIGHT_ATTEMPT": "1",
    "LOOPWRIGHT_COMM_FILE": "communications.json",
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
}

Play = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """Play a script in a folder of its own; what it leaves running is ended with the test."""
    before = set(proc_table.own_children())

    def run(script: Any, prompt: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "script.json"
        path.write_text(script if isinstance(script, str) else json.dumps(script))
        return subprocess.run(
            [*AGENT, str(path)],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **IDENTITY, **env},
            input=prompt,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    yield run
    for orphan in set(proc_table.own_children()) - before:
        end(orphan)


def mailbox(folder: Path) -> Any:
    return json.loads((folder / "communications.json").read_text())


def test_say_and_err_print(play: Play) -> None:
    done = play([{"say": "hello"}, {"err": {"text": "trouble"}}])
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "trouble\n")


def test_write_append_and_delete_change_files(play: Play, tmp_path: Path) -> None:
    play(
        [
            {"write": {"path": "src/a.txt", "text": "one\n"}},
            {"append": {"path": "src/a.txt", "text": "two\n"}},
            {"write": "empty"},
            {"write": "gone"},
            {"delete": "gone"},
            {"delete": "never there"},
        ]
    )
    assert (tmp_path / "src/a.txt").read_text() == "one\ntwo\n"
    assert (tmp_path / "empty").read_text() == ""
    assert not (tmp_path / "gone").exists()


def test_commit_commits_everything_with_an_identity_of_its_own(play: Play, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    done = play([{"write": {"path": "a.py", "text": "a"}}, {"commit": "Add a"}, {"commit": {}}])
    assert done.returncode == 0, done.stderr
    said = subprocess.run(
        ["git", "log", "--format=%s by %an"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "Work by Scripted Agent\nAdd a by Scripted Agent\n"


def test_commit_uses_the_identity_that_is_configured(play: Play, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    play([{"commit": "Add"}])
    said = subprocess.run(
        ["git", "log", "--format=%an"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout == "Ada\n"


def test_commit_outside_a_repository_ends_the_agent(play: Play) -> None:
    assert play([{"commit": "x"}, {"exit": 0}], GIT_CEILING_DIRECTORIES="/").returncode == 128


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ({"run": ["sh", "-c", "exit 3"]}, 3),
        ({"run": {"argv": ["sh", "-c", "exit 3"], "may_fail": True}}, 0),
        ({"run": ["sh", "-c", "kill -9 $$"]}, 137),
        ({"run": ["no-such-program"]}, 74),
        ({"exit": 41}, 41),
        ({"wait_file": {"path": "never", "s": 0.01}}, 1),
        ({"crash": "SIGSEGV"}, -11),
        ({"crash": "KILL"}, -9),
        ({"crash": {}}, -11),
        ({"delete": "."}, 74),
    ],
)
def test_a_step_ends_the_agent_with_its_code(play: Play, step: Any, code: int) -> None:
    assert play([step]).returncode == code


def test_a_crash_leaves_no_core_file(play: Play, tmp_path: Path) -> None:
    play([{"crash": "SIGSEGV"}])
    assert [path.name for path in tmp_path.iterdir()] == ["script.json"]


@pytest.mark.parametrize("newlines", [True, False])
def test_flood_prints_that_many_bytes(play: Play, *, newlines: bool) -> None:
    done = play([{"flood": {"bytes": 1_000_003, "newlines": newlines}}])
    assert len(done.stdout) == 1_000_003
    assert ("\n" in done.stdout) is newlines


def test_read_prompt_copies_standard_input(play: Play, tmp_path: Path) -> None:
    play([{"read_prompt": "prompt"}], prompt="do it\n" * 50_000)
    assert (tmp_path / "prompt").read_text() == "do it\n" * 50_000


def test_env_shows_what_the_agent_was_given(play: Play, tmp_path: Path) -> None:
    play([{"env": "ours.json"}, {"env": {"path": "all.json", "prefix": ""}}])
    ours = json.loads((tmp_path / "ours.json").read_text())
    assert ours == {name: IDENTITY[name] for name in IDENTITY if name.startswith("LOOPWRIGHT_")}
    assert "PATH" in json.loads((tmp_path / "all.json").read_text())


def test_sleep_and_spin_take_their_time(play: Play) -> None:
    began = time.monotonic()
    play([{"sleep": 0.1}, {"spin": 0.1}])
    assert time.monotonic() - began >= 0.2


def test_wait_file_waits(play: Play, tmp_path: Path) -> None:
    done = play([{"daemon": {"s": 0.1, "path": "flag"}}, {"wait_file": "flag"}, {"exit": 5}])
    assert done.returncode == 5
    assert (tmp_path / "flag").exists()


async def test_hang_never_ends_by_itself_and_obeys_term(stage: Stage) -> None:
    process = await scripted_agent(stage, [{"say": "up"}, {"hang": True}])
    report = await process.stop(5)
    assert report.exit is not None
    assert report.exit.signal == 15


async def test_ignore_term_has_to_be_killed(stage: Stage) -> None:
    process = await scripted_agent(stage, [{"ignore_term": True}, {"say": "up"}, {"hang": True}])
    report = await process.stop(GRACE)
    assert report.forced


@pytest.mark.parametrize(
    "step", [{"child": 600}, {"daemon": 600}, {"daemon": {"s": 600, "clear_env": True}}]
)
async def test_what_a_script_leaves_running_is_left_and_found(stage: Stage, step: Any) -> None:
    process = await scripted_agent(stage, [step, {"say": "up"}])
    await process.wait()
    left = {pid for pid in proc_table.own_children() if lineage_tag.read(pid) == process.tree.tag}
    left.discard(process.identity.pid)
    assert left
    await process.sweep(GRACE)
    assert not any(map(alive, left))


@pytest.mark.parametrize("how", ["rename", "whole", "halves", "in_place"])
def test_a_breakpoint_is_written_right(play: Play, tmp_path: Path, how: str) -> None:
    other = {"agent-T002": {"mission": "other", "lifecycle_state": "running"}, "_meta": {"v": 1}}
    (tmp_path / "communications.json").write_text(json.dumps(other, indent=8) + " " * 2000)
    word = {"type": "blocked", "blocked_on": ["T002"], "reason": "r", "how": how, "pause": 0}
    done = play([{"breakpoint": {**word, "summary": "so far"}}])
    assert done.returncode == 0, done.stderr
    assert mailbox(tmp_path) == {
        **other,
        "agent-T001": {
            "lifecycle_state": "blocked",
            "breakpoint": {
                "type": "blocked",
                "task_id": "T001",
                "summary": "so far",
                "blocked_on": ["T002"],
                "reason": "r",
                "spawn_id": "spawn-7",
                "seq": 1,
            },
        },
    }


@pytest.mark.parametrize(
    ("given", "state", "word"),
    [
        ({"type": "task_complete"}, "complete", {}),
        ({"type": "pr_created", "pr_url": "u"}, "pr_created", {}),
        ({"type": "question", "question": "Which?"}, "question", {}),
        ({"type": "blocked", "blocked_on": "T2"}, "blocked", {"blocked_on": ["T2"]}),
        ({"type": "blocked", "spawn_id": "spawn-6", "seq": 9}, "blocked", {}),
        ({"type": "blocked", "lifecycle_state": "complete"}, "complete", {}),
        ({"type": "task_complete", "task_id": "T009"}, "complete", {}),
    ],
)
def test_a_breakpoint_says_what_the_script_says(
    play: Play, tmp_path: Path, given: dict[str, Any], state: str, word: dict[str, Any]
) -> None:
    assert play([{"breakpoint": given}]).returncode == 0
    entry = mailbox(tmp_path)["agent-T001"]
    assert entry["lifecycle_state"] == state
    named = {name: value for name, value in given.items() if name != "lifecycle_state"}
    identity = {"task_id": "T001", "spawn_id": "spawn-7", "seq": 1}
    assert entry["breakpoint"] == {**identity, **named, **word}


def test_a_lie_claims_completion(play: Play, tmp_path: Path) -> None:
    play([{"lie": {}}])
    entry = mailbox(tmp_path)["agent-T001"]
    assert entry["breakpoint"]["type"] == "task_complete"
    assert entry["breakpoint"]["summary"] == "Everything is done and all tests pass."


def test_a_breakpoint_can_be_left_for_another_agent(play: Play, tmp_path: Path) -> None:
    play([{"breakpoint": {"type": "task_complete", "agent_id": "agent-T002"}}])
    assert list(mailbox(tmp_path)) == ["agent-T002"]


def test_a_second_breakpoint_counts_on(play: Play, tmp_path: Path) -> None:
    play([{"breakpoint": "task_complete"}, {"breakpoint": "task_complete"}])
    assert mailbox(tmp_path)["agent-T001"]["breakpoint"]["seq"] == 2


def test_a_symlinked_mailbox_leads_elsewhere(play: Play, tmp_path: Path) -> None:
    play([{"breakpoint": {"type": "task_complete", "how": "symlink"}}])
    assert (tmp_path / "communications.json").is_symlink()
    assert "agent-T001" in mailbox(tmp_path)


def test_a_fifo_takes_the_mailboxes_place(play: Play, tmp_path: Path) -> None:
    play([{"breakpoint": {"type": "task_complete", "how": "fifo"}}])
    assert stat.S_ISFIFO((tmp_path / "communications.json").stat().st_mode)


@pytest.mark.parametrize("how", ["torn", "invalid", "binary"])
def test_a_broken_mailbox_cannot_be_read(play: Play, tmp_path: Path, how: str) -> None:
    assert play([{"breakpoint": {"type": "task_complete", "how": how}}]).returncode == 0
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|can't decode"):
        mailbox(tmp_path)


def test_a_deep_mailbox_is_deep(play: Play, tmp_path: Path) -> None:
    play([{"breakpoint": {"type": "task_complete", "how": "deep"}}])
    with pytest.raises(RecursionError):
        mailbox(tmp_path)


def test_a_huge_mailbox_is_huge(play: Play, tmp_path: Path) -> None:
    play([{"breakpoint": {"type": "task_complete", "how": "huge", "bytes": 5_000_000}}])
    assert (tmp_path / "communications.json").stat().st_size > 5_000_000
    assert "agent-T001" in mailbox(tmp_path)


@pytest.mark.parametrize(("attempt", "said"), [("1", "one"), ("2", "later"), ("17", "later")])
def test_each_attempt_plays_its_own_steps(play: Play, attempt: str, said: str) -> None:
    script = {"attempts": {"1": [{"say": "one"}], "default": [{"say": "later"}]}}
    assert play(script, LOOPWRIGHT_ATTEMPT=attempt).stdout == f"{said}\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("{", "cannot be read"),
        ("3", "neither a list"),
        ({"attempts": {"1": "say"}}, "attempt 1: the steps must be a list"),
        ({"attempts": {"2": []}}, "no steps for attempt 1"),
        ([{"say": "never said"}, {"dance": 1}], "step 2: there is no verb 'dance'"),
        ([["say"]], "step 1: a step is an object with one verb"),
        ([{"say": "a", "err": "b"}], "one verb"),
        ([{"sleep": "long"}], "step 1 (sleep): s must be float"),
        ([{"sleep": True}], "s must be float"),
        ([{"sleep": {}}], "s is missing"),
        ([{"write": {"path": "a", "mode": 1}}], "no option 'mode'; it has: path, text"),
        ([{"hang": {"s": 1}}], "no option 's'"),
        ([{"crash": "SIGNOTHING"}], "there is no signal 'SIGNOTHING'"),
        ([{"run": [1]}], "argv must be a list of texts"),
        ([{"breakpoint": {"type": "blocked", "how": "softly"}}], "how must be one of rename, "),
    ],
)
def test_a_bad_script_is_refused_before_anything_is_played(
    play: Play, script: Any, message: str
) -> None:
    done = play(script)
    assert (done.returncode, done.stdout) == (64, "")
    assert message in done.stderr


def test_without_a_script_it_says_how_to_call_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOPWRIGHT_AGENT_SCRIPT", raising=False)
    assert scripted.main([]) == 64
    assert "--help" in capsys.readouterr().err


def test_the_script_may_be_named_in_the_environment(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.json").write_text('[{"say": "found"}]')
    monkeypatch.setenv("LOOPWRIGHT_AGENT_SCRIPT", str(tmp_path / "script.json"))
    assert scripted.main([]) == 0
    assert capfd.readouterr().out == "found\n"


def test_help_and_readme_name_every_verb_and_every_way() -> None:
    folder = os.path.dirname(scripted.__file__)  # noqa: PTH120  # one use
    with open(f"{folder}/README.md", encoding="utf-8") as stream:  # noqa: PTH123  # as above
        readme = stream.read()
    for verb in steps.VERBS:
        assert f"\n  {verb} " in scripted.help_text()
        assert f"`{verb}`" in readme
    for way in mailbox_faults.WAYS:
        assert f"`{way}`" in readme


def test_it_starts_without_heavy_imports() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import runtime.agents.scripted"],
        env={"PYTHONPATH": IDENTITY["PYTHONPATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "runtime.agents.scripted" in loaded
    assert not loaded & {"asyncio", "argparse", "pathlib", "typing", "subprocess", "signal"}


async def scripted_agent(stage: Stage, script: Any) -> AgentProcess:
    """Start the agent and wait until it says that it is up."""
    path = stage.folder / "script.json"
    path.write_text(json.dumps(script))
    process = await stage.terminals.spawn(stage.order(*AGENT, str(path), env=IDENTITY))
    await until(lambda: "up" in stage.log.read_text())
    return process
