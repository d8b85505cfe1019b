"""What an agent's commit says in settings files holds nobody less before a person approved it."""

from __future__ import annotations

import json
import shlex
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.loopkit import DONE, SETTINGS, until
from tests.tools.machine import gives

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

ROOT = Path(__file__).parents[3]
PR = {"breakpoint": "pr_created"}
LOOK = """\
import sys
try:
    open(sys.argv[1], "a").write("out\\n")
except OSError:
    print("shut in")
"""
PLANTS = {
    "loopwright.toml": "{before}{planted}",
    "pyproject.toml": "[tool.loopwright]\n{planted}",
}


def _escaped(world: World) -> Path:
    return world.folder / "escaped"


def _look(world: World) -> dict[str, Any]:
    """Return the step by which an agent finds out whether it is in its sandbox."""
    return {"run": [sys.executable, "-S", "-c", LOOK, str(_escaped(world))]}


def _planting(file: str, before: str, planted: str) -> list[dict[str, Any]]:
    text = PLANTS[file].format(before=before, planted=planted)
    return [{"write": {"path": file, "text": text}}, {"commit": "Small things"}]


def _sandboxed(world: World, more: str = "") -> str:
    """Commit settings that shut agents in; returns their text."""
    readable = json.dumps([str(world.folder), str(ROOT)])
    text = f'{SETTINGS}sandbox_readable = {readable}\ntest_command = "true"\n{more}'
    world.settings(text if 'isolation = "' in more else f'{text}isolation = "container"\n')
    world.git("commit", "--quiet", "-am", "Shut agents in")
    return (world.repo / "loopwright.toml").read_text()


def _two_attempts(world: World, first: list[Any]) -> str:
    return world.script(
        "agent", {"attempts": {"1": [_look(world), *first], "default": [_look(world), DONE]}}
    )


def _held(world: World) -> dict[str, Any]:
    return {each["name"]: each for each in world.json("settings")["held"]}


def test_a_pull_request_that_changes_what_holds_agents_is_not_merged_unasked(
    world: World,
) -> None:
    if not gives(isolation="container"):
        return
    file = "loopwright.toml"
    text = _sandboxed(world, "auto_merge = true\npr_merge_timeout = 30\n")
    loose = text.replace('isolation = "container"\n', "")
    first = [*_planting(file, loose, 'isolation = "process"\n'), PR]
    with world.live("run", "x", "--command", _two_attempts(world, first)) as live:
        world.comes_to("PrPending")
        live.says("its commits change what restricts agents: isolation")

        def refused() -> str:
            pulls = world.json("pr", "list")["pull_requests"]
            assert all(pull["state"] == "open" for pull in pulls)
            return "".join(pull["merge_refused"] for pull in pulls)

        assert f"isolation in {file}" in until(refused, "the provider says why it does not merge")
        # A person merges it: the code is good, the settings wait.
        world.call("pr", "merge", "1")
        live.says("Not in force: isolation")
        live.ends(0)
    assert 'isolation = "process"' in (world.repo / file).read_text()
    assert not _escaped(world).exists(), "attempt 2 stayed in its sandbox"
    assert _held(world)["isolation"]["approved"] == "container"


@pytest.mark.parametrize("file", PLANTS)
def test_what_an_accepted_change_planted_in_the_settings_waits_for_a_person(
    world: World, file: str
) -> None:
    if not gives(isolation="container"):
        return
    text = _sandboxed(world, "budget_attempts = 3\n")
    ran = world.folder / "ran"
    if file == "pyproject.toml":  # the other file would come before it
        text = text.replace('isolation = "container"\n', "").replace("budget_attempts = 3\n", "")
        world.settings(text)
        own = '[tool.loopwright]\nisolation = "container"\nbudget_attempts = 3\n'
        (world.repo / file).write_text(own)
        world.git("add", "-A")
        world.git("commit", "--quiet", "-m", "Hold them here")
    kept = "".join(
        line
        for line in text.splitlines(keepends=True)
        if not line.startswith(("isolation", "budget_attempts", "test_command"))
    )
    touch = json.dumps(f"touch {ran}")
    planted = f'isolation = "process"\nbudget_attempts = 900\nverify = [{touch}]\n'
    planted += f"test_command = {touch}\n" if file == "loopwright.toml" else ""
    agent = _two_attempts(world, [*_planting(file, kept, planted), DONE])
    world.call("run", "x", "--command", agent)
    assert file in world.call("show", "agent-T001").stdout
    accepted = world.call("accept", "agent-T001")
    assert "loopwright settings approve" in accepted.stderr
    assert 'isolation = "process"' in (world.repo / file).read_text()

    again = world.call("run", "y", "--command", _two_attempts(world, [{"commit": "y"}, DONE]))
    assert "isolation" in again.stderr
    assert not _escaped(world).exists()
    assert not ran.exists()
    values = {row["name"]: row["value"] for row in world.json("settings")["settings"]}
    assert values["isolation"] == "container"
    assert values["budget_attempts"] == 3
    assert values["verify"] == []
    assert {"isolation", "budget_attempts", "verify"} <= set(_held(world))
    assert "settings approve" in world.call("doctor", code=None).stdout

    world.call("settings", "approve", "--by", "Ada")
    assert not _held(world)
    values = {row["name"]: row["value"] for row in world.json("settings")["settings"]}
    assert values["isolation"] == "process"
    acts = [
        (entry["action"], entry["actor"], entry["subject"], entry["outcome"])
        for entry in world.json("audit")
    ]
    assert ("setting", "Ada", "isolation", "approved") in acts
    assert any(act[0] == "setting" and act[2:] == ("isolation", "held") for act in acts)


GONE = {
    "deleted": ["git", "rm", "--quiet", "FILE"],
    "renamed": ["git", "mv", "FILE", "other.toml"],
    "dangling": ["sh", "-c", "rm FILE && ln -s nowhere FILE && git add FILE"],
}


@pytest.mark.parametrize(
    ("file", "how"),
    [("loopwright.toml", "deleted"), ("pyproject.toml", "renamed"), ("pyproject.toml", "dangling")],
)
def test_a_settings_file_that_an_agent_took_away_holds_as_before(
    world: World, file: str, how: str
) -> None:
    text = _sandboxed(world, 'isolation = "process"\n')
    held = "wall_limit = 60\nbudget_attempts = 3\n"
    if file == "pyproject.toml":
        (world.repo / file).write_text(f"[tool.loopwright]\n{held}")
        held = ""
    world.settings(f"{text}{held}")
    world.git("add", "-A")
    world.git("commit", "--quiet", "-m", "Hold them here")
    take = [word.replace("FILE", file) for word in GONE[how]]
    agent = world.script("agent", [{"run": take}, {"commit": "x"}, DONE])
    world.call("run", "x", "--command", agent)
    with world.live("serve", "--port", "0") as live:
        until(lambda: live.out, "it serves")
        world.call("accept", "agent-T001")
        live.says("Not in force: ")
    values = {row["name"]: row for row in world.json("settings")["settings"]}
    assert (values["wall_limit"]["value"], values["budget_attempts"]["value"]) == (60, 3)
    assert values["wall_limit"]["source"] == f"{file}, as a person approved it"
    world.call("settings", "approve")
    values = {row["name"]: row for row in world.json("settings")["settings"]}
    assert values["budget_attempts"]["value"] != 3, "now a person said so"
    (world.repo / file).unlink(missing_ok=True)
    table = "[tool.loopwright]\n" if file == "pyproject.toml" else ""
    (world.repo / file).write_text(f"{table}wall_limit = 77\n")
    assert not _held(world), "what follows is a person's"


@pytest.mark.parametrize("how", ["merge", "rebase"])
def test_it_waits_in_whatever_form_a_person_merged_it(world: World, how: str) -> None:
    text = _sandboxed(world, 'isolation = "process"\nwall_limit = 60\n')
    loose = text.replace("wall_limit = 60", "wall_limit = 0")
    agent = world.script(
        "agent", [{"write": {"path": "loopwright.toml", "text": loose}}, {"commit": "x"}, DONE]
    )
    world.call("run", "x", "--command", agent)
    (world.repo / "more.txt").write_text("A person's own work\n")
    world.git("add", "-A")
    world.git("commit", "--quiet", "-m", "Something else")
    branch = "agent/agent-T001"
    if how == "merge":
        world.git("merge", "--quiet", "--no-ff", "-m", "By hand", branch)
    else:
        world.git("cherry-pick", branch)
    assert _held(world)["wall_limit"]["approved"] == 60
    # The branch and the record may be long gone when somebody looks again.
    world.call("accept" if how == "merge" else "reject", "agent-T001")
    assert _held(world)["wall_limit"]["value"] == 0


def test_a_persons_own_edit_counts_at_once_also_beside_a_change_that_waits(world: World) -> None:
    text = _sandboxed(world, 'isolation = "process"\nwall_limit = 60\nmax_live_agents = 2\n')
    loose = text.replace("wall_limit = 60", "wall_limit = 0")
    agent = world.script(
        "agent", [{"write": {"path": "loopwright.toml", "text": loose}}, {"commit": "x"}, DONE]
    )
    world.call("run", "x", "--command", agent)
    world.call("accept", "agent-T001")
    world.settings(loose.replace("max_live_agents = 2", "max_live_agents = 7"))
    values = {row["name"]: row["value"] for row in world.json("settings")["settings"]}
    assert (values["max_live_agents"], values["wall_limit"]) == (7, 60)
    assert set(_held(world)) == {"wall_limit"}
    world.settings(loose.replace("wall_limit = 0", "wall_limit = 90"))
    assert not _held(world), "a value of the person's own ends the wait"


def test_a_persons_edit_while_agents_run_is_taken_up_by_the_next_attempt(world: World) -> None:
    text = _sandboxed(world, 'isolation = "process"\nverify = ["true"]\n')
    wait = world.folder / "go"
    agent = world.script(
        "agent",
        [{"run": ["sh", "-c", f"while [ ! -e {wait} ]; do sleep 0.05; done"]}, {"commit": "x"},
         DONE],
    )  # fmt: skip
    with world.live("run", "x", "--command", agent, "--max-retries", "0") as live:
        world.comes_to("Working")
        world.settings(text.replace('verify = ["true"]', 'verify = ["exit 9"]'))
        wait.touch()
        live.ends(5)
        assert "`exit 9` ended with code 9" in live.err


@pytest.mark.parametrize(
    "command",
    ["sh ci/poll.sh $SHA", 'sh "$PWD/ci/poll.sh"', "cd ci && ./poll.sh", "run --file=ci/poll.sh"],
)
def test_a_command_whose_script_an_agent_changed_is_not_run(world: World, command: str) -> None:
    (world.repo / "ci").mkdir()
    (world.repo / "ci" / "poll.sh").write_text("echo '{}'\n")
    world.git("add", "-A")
    _sandboxed(world, f'isolation = "process"\nci_poll_command = {json.dumps(command)}\n')
    agent = world.script(
        "agent",
        [{"write": {"path": "ci/poll.sh", "text": "echo '{}'\nid\n"}}, {"commit": "x"}, DONE],
    )
    world.call("run", "x", "--command", agent)
    world.call("accept", "agent-T001")
    values = {row["name"]: row["value"] for row in world.json("settings")["settings"]}
    assert values["ci_poll_command"] is None
    assert _held(world).keys() & {"ci/poll.sh", "ci"}
    (world.repo / "ci" / "poll.sh").write_text("echo '{}'\nid\n# mine\n")
    assert _held(world), "an edit beside it does not release it"
    world.call("settings", "approve")
    values = {row["name"]: row["value"] for row in world.json("settings")["settings"]}
    assert values["ci_poll_command"] == command
    (world.repo / "ci" / "poll.sh").write_text("echo mine\n")
    assert not _held(world)


def test_a_command_for_transitions_that_an_agent_wrote_is_not_run(world: World) -> None:
    ran = world.folder / "ran"
    text = _sandboxed(world, 'isolation = "process"\n')
    planted = f"on_transition = [{json.dumps(f'touch {ran}')}]\n"
    agent = world.script("agent", [*_planting("loopwright.toml", text, planted), DONE])
    world.call("run", "x", "--command", agent)
    world.call("accept", "agent-T001")
    done = world.script("done", [DONE])
    world.call("run", "y", "--command", done)
    assert not ran.exists()
    assert "on_transition" in _held(world)
    world.call("settings", "approve")
    world.call("run", "z", "--command", done)
    assert ran.exists()


def _sh(line: str) -> dict[str, Any]:
    return {"run": ["sh", "-ec", line]}


def _plants(world: World) -> str:
    """Commit a limit; returns the shell line by which an agent lifts it."""
    _sandboxed(world, 'isolation = "process"\nwall_limit = 60\n')
    return "sed -i s/wall_limit.*/wall_limit=0/ loopwright.toml; git commit -qam x"


def test_work_without_a_common_history_comes_to_its_end(world: World) -> None:
    line = f"{_plants(world)}; git reset -q --hard $(git commit-tree -m x HEAD^{{tree}})"
    world.call("run", "x", "--command", world.script("agent", [_sh(line), DONE]))
    world.git("checkout", "agent/agent-T001", "--", "loopwright.toml")
    world.call("reject", "agent-T001")
    assert _held(world)["wall_limit"]["approved"] == 60


def test_what_waits_is_kept_when_the_branch_moves_on_and_goes(world: World) -> None:
    done = world.folder / "planted"
    line = f"{_plants(world)}; touch {done}"
    line += f"; while [ -e {done} ]; do sleep 0.05; done; git reset -q --hard HEAD~1"
    agent = world.script("agent", [_sh(line), {"commit": "y"}, DONE])
    with world.live("run", "x", "--command", agent) as live:
        until(done.exists, "it has planted")
        world.git("merge", "--quiet", "--squash", "agent/agent-T001")
        live.says("Not in force: wall_limit")
        done.unlink()
        live.ends(0)
    world.call("reject", "agent-T001")
    assert _held(world)["wall_limit"]["approved"] == 60


def test_it_waits_from_any_branch_of_an_agent(world: World) -> None:
    line = f"{_plants(world)}; git branch agent/other; git reset -q --hard HEAD~1"
    world.call("run", "x", "--command", world.script("agent", [_sh(line), {"commit": "y"}, DONE]))
    world.git("checkout", "agent/other", "--", "loopwright.toml")
    assert _held(world)["wall_limit"]["approved"] == 60


@pytest.mark.parametrize("how", ["accepted", "merged by hand"])
def test_what_was_planted_before_anything_was_recorded_waits(world: World, how: str) -> None:
    line = _plants(world)
    world.call("run", "x", "--command", world.script("agent", [_sh(line), DONE]))
    with closing(sqlite3.connect(world.repo / ".loopwright" / "state.db")) as records, records:
        records.execute("DELETE FROM documents WHERE collection LIKE 'settings.%'")
    if how == "accepted":
        assert "settings approve" in world.call("accept", "agent-T001").stderr
    else:
        world.git("merge", "--quiet", "--ff-only", "agent/agent-T001")
    assert _held(world)["wall_limit"]["approved"] == 60
    agent = world.script("more", [{"commit": "y"}, DONE])
    assert "Not in force: wall_limit" in world.call("run", "y", "--command", agent).stderr


def test_a_file_that_could_not_be_read_for_a_while_does_not_hold_a_persons_edits(
    world: World,
) -> None:
    _sandboxed(world, 'isolation = "process"\n')
    line = "echo '[' > pyproject.toml; git add -A; git commit -qm x; git rm -q pyproject.toml"
    agent = world.script("agent", [_sh(line), {"commit": "y"}, DONE])
    world.call("run", "x", "--command", agent)
    world.call("accept", "agent-T001")
    (world.repo / "pyproject.toml").write_text("[tool.loopwright]\nwall_limit = 60\n")
    assert not _held(world)


def test_what_an_agent_wrote_into_the_plan_gives_no_budget_and_no_program(world: World) -> None:
    first = world.script("first", [{"commit": "y"}, DONE])
    plan = world.repo / "loopwright.plan.toml"
    head = f"[agents.default]\ncommand = {json.dumps(shlex.split(first))}\n"
    plan.write_text(f'{head}[[tasks]]\nid = "A"\ntitle = "a"\nverify = ["true"]\n')
    world.git("add", "-A")
    world.git("commit", "--quiet", "-m", "Plan")
    ran = world.folder / "ran"
    planted = (
        f'[agents.default]\ncommand = ["touch", "{ran}"]\n'
        f'[[tasks]]\nid = "A"\ntitle = "a"\nverify = ["true"]\nsetup = ["touch {ran}"]\n'
        '[[tasks]]\nid = "B"\ntitle = "b"\nbudget = {attempts = 900}\n'
    )
    agent = world.script(
        "agent",
        [
            {"write": {"path": plan.name, "text": planted}},
            {"write": {"path": "more.toml", "text": planted.replace('"A"', '"C"')}},
            {"commit": "x"},
            DONE,
        ],
    )
    world.call("up", "--no-server")
    world.call("run", "x", "--command", agent, "--task-id", "P")
    world.call("accept", "agent-P")
    done = world.call("up", "--no-server", code=None)
    assert "settings approve" in done.stderr
    assert not ran.exists()
    assert world.row("agent-B")["work_kind"] == "Completed", "a new task loosens nothing"
    assert "more.toml" in world.call("up", "more.toml", "--no-server", code=None).stderr
    assert not ran.exists(), "nor does a plan count that an agent added"
    assert "more.toml" in [each["file"] for each in world.json("settings")["held"]]
    world.call("settings", "approve")
    assert not _held(world)


def test_what_is_there_at_first_is_approved_and_shown_once(world: World) -> None:
    world.settings(f'{SETTINGS}verify = ["true"]\n')
    agent = world.script("agent", [{"commit": "x"}, DONE])
    first = world.call("run", "x", "--command", agent)
    assert "verify" in first.stderr
    assert "approved" in first.stderr
    second = world.call("run", "y", "--command", agent)
    assert "approved" not in second.stderr


def test_the_settings_are_listed_with_their_origin(world: World) -> None:
    world.settings("max_retries = 7\n")
    rows = {row["name"]: row for row in world.json("settings")["settings"]}
    assert rows["max_retries"]["value"] == 7
    assert rows["max_retries"]["source"].endswith("loopwright.toml, line 1")
    assert "max_retries" in world.call("settings").stdout
    assert "No change by an agent waits" in world.call("settings", "approve").stdout


def test_an_agent_in_a_sandbox_cannot_write_the_settings_of_the_users_checkout(
    world: World,
) -> None:
    if not gives(isolation="container"):
        return
    text = _sandboxed(world, 'verify = ["false"]\n')
    planted = f"echo 'verify = [\"true\"]' > {world.repo}/loopwright.toml || true"
    steps = [{"run": ["sh", "-c", planted]}, {"commit": "x"}, DONE]
    agent = world.script("agent", {"attempts": {"default": steps}})
    world.call("run", "x", "--command", agent, "--max-retries", "0", code=5)
    assert (world.repo / "loopwright.toml").read_text() == text
