"""Agents and gates work outside of the user's tree: nothing there is found by looking upwards."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.doctor import workspaces
from orchestrator.doctor.machine import OK
from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.orchestrator.loopkit import BIN, BLOCK, DONE, World

AGENT = "agent-T001"
SECOND = [{"write": "b"}, {"commit": "B"}, DONE]
QUICK = "retry_interval = 0.1\nstop_grace = 0.3\nblocked_timeout = 0.2\n"


def findings(world: World) -> dict[str, list[dict[str, str]]]:
    """Return what doctor says about the places of workspaces, by level."""
    told: dict[str, list[dict[str, str]]] = {}
    for each in world.json("doctor", code=None)["checks"]:
        if each["what"] in {"workspaces", "leftovers"}:
            told.setdefault(each["level"], []).append(each)
    return told


def done_by(world: World, *steps: dict[str, Any]) -> str:
    return world.script("agent", [*steps, {"write": "a.txt"}, {"commit": "A"}, DONE])


@pytest.mark.parametrize("found", ["node", "pytest"])
def test_what_lies_in_the_users_checkout_is_found_by_neither_agent_nor_gate(
    world: World, found: str
) -> None:
    """Node looks for node_modules in every folder above, pytest for its settings."""
    if found == "node":
        package = world.repo / "node_modules" / "users-own"
        package.mkdir(parents=True)
        (package / "index.js").write_text("module.exports = 1\n")
        program = [
            "node",
            "-e",
            "try { require('users-own') } catch { process.exit(0) }; process.exit(1)",
        ]
    else:
        (world.repo / "pytest.ini").write_text("[pytest]\naddopts = --an-option-nobody-knows\n")
        program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_a.py"]
    gate = world.folder / "gate.sh"
    words = json.dumps(program)
    gate.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\n"
        f"sys.exit(subprocess.run({words}).returncode)\n"
    )
    gate.chmod(0o755)
    (world.repo / "loopwright.toml").write_text(f'{QUICK}verify = ["{gate}"]\nbaseline = false\n')
    test = {"write": {"path": "test_a.py", "text": "def test_a(): pass\n"}}
    script = done_by(world, test, {"run": [str(gate)]})
    assert subprocess.run([gate], cwd=world.repo, check=False, capture_output=True).returncode
    world.call("run", "x", "--command", script, "--max-retries", "0")
    assert world.row()["work_kind"] == "Completed"


def test_a_copy_of_a_repository_goes_on_by_itself_beside_its_original(world: World) -> None:
    world.settings(QUICK)
    first = [{"write": "a.txt"}, {"commit": "A"}, {"write": "wip.txt"}, BLOCK]
    script = world.script("agent", {"attempts": {"1": first, "2": SECOND}})
    world.call("run", "x", "--command", script, code=3)
    original, workspace = world.repo, world.workspace()
    world.repo = shutil.copytree(original, world.folder / "copy", symlinks=True)
    world.call("unblock", AGENT, "go on")
    world.call("run", "--task-id", "T001", "--command", script)
    assert (world.workspace() / "b").exists()
    world.call("accept", AGENT)
    assert world.git("show", "--stat", "--format=", "HEAD^2").split()[0] == "b"
    world.repo = original
    assert "wip.txt" in world.git("-C", str(workspace), "status", "--porcelain")
    assert world.row()["work_kind"] == "Blocked"


def test_a_lifecycle_of_an_earlier_version_ends_where_it_began(world: World) -> None:
    world.settings(f'{QUICK}worktrees_dir = ".loopwright/worktrees"\n')
    steps = [{"write": "a.txt"}, {"commit": "A"}, BLOCK]
    script = world.script("agent", {"attempts": {"1": steps, "2": SECOND}})
    world.call("run", "x", "--command", script, code=3)
    world.settings(QUICK)
    earlier = world.repo / ".loopwright" / "worktrees"
    assert f"1 of an earlier version stay in {earlier}" in str(findings(world)[OK])
    world.call("unblock", AGENT, "go on")
    world.call("run", "--task-id", "T001", "--command", script)
    assert (earlier / AGENT / "b").exists()
    world.call("accept", AGENT)
    assert not (earlier / AGENT).exists()
    assert (world.repo / "b").exists()
    world.call("run", "y", "--task-id", "T002", "--command", done_by(world))
    assert world.workspace("agent-T002").is_dir()


def test_a_repository_whose_path_has_blanks_and_umlauts_is_worked_on(tmp_path: Path) -> None:
    folder = tmp_path / "Büro und 'Garten'"
    folder.mkdir()
    world = World(folder)
    world.settings(f'{QUICK}verify = ["test -f a.txt"]\nworktrees_dir = "../die Ägenten"\n')
    script = Path(done_by(world).split(" ", 1)[1])
    plain = shutil.copy(script, tmp_path / "agent.json")
    world.call("run", "x", "--task-id", "T002", "--command", f"{BIN}/loopwright-agent {plain}")
    assert (folder / "die Ägenten" / "agent-T002" / "a.txt").exists()
    world.call("accept", "agent-T002")
    assert (world.repo / "a.txt").exists()


@pytest.mark.parametrize("setting", ["", 'worktrees_dir = "/dev/null/agents"'])
def test_a_place_that_cannot_be_written_is_refused_at_the_start(
    world: World, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    world.settings(f"{QUICK}{setting}\n")
    if not setting:
        monkeypatch.setenv("XDG_STATE_HOME", "/proc/nobody-can-write-here")
    refused = world.call("run", "x", "--command", "true", code=2)
    assert "set worktrees_dir, or XDG_STATE_HOME, to a writable" in refused.stderr
    assert not (world.repo / ".loopwright" / "state.db").exists()
    assert findings(world)["bad"]


def test_doctor_tells_the_place_and_what_is_wrong_with_it(world: World) -> None:
    assert f"in {world.workspace().parent}, " in findings(world)[OK][0]["found"]
    world.settings(f'{QUICK}worktrees_dir = "agents"\n')
    (found,) = findings(world)["warn"]
    assert "programs that look upwards" in found["found"]
    world.settings(f'{QUICK}worktrees_dir = "."\n')
    assert "a folder of its own" in findings(world)["bad"][0]["found"]
    world.settings(f'{QUICK}worktrees_dir = "/dev/null/agents"\n')
    assert "set worktrees_dir" in findings(world)["bad"][0]["mend"]
    folder = world.workspace().parent
    (lost,) = workspaces._lasting(folder, "overlay", "ext4")
    assert "gone with the container" in lost.found
    (lost,) = workspaces._lasting(folder, "tmpfs", "overlay")
    assert "gone at a restart" in lost.found
    assert not list(workspaces._lasting(folder, "overlay", "overlay"))


def test_doctor_names_what_a_deleted_repository_left_and_how_to_remove_it(world: World) -> None:
    world.settings(QUICK)
    world.call("run", "x", "--command", done_by(world))
    gone = world.repo
    (other := world.folder / "other").mkdir()
    world.repo = World(other).repo
    left = default_worktrees_dir(gone)
    assert "leftovers" not in str(findings(world))
    shutil.rmtree(gone)
    (found,) = findings(world)["warn"]
    assert str(gone) in found["found"]
    assert found["mend"].endswith(f"rm -rf {left}")


def test_commands_typed_in_a_workspace_are_about_the_users_repository(world: World) -> None:
    world.settings(f'{QUICK}verify = ["true"]\n')
    world.call("run", "x", "--command", done_by(world))
    judging = world.workspace().parent / ".judging" / AGENT
    assert (judging / ".git").is_dir()
    for folder in (world.workspace(), judging, judging.parent):
        told = subprocess.run(
            [BIN / "loopwright", "ps", "--all", "--ids"],
            cwd=folder, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert told.stdout.split() == [AGENT], told.stderr
