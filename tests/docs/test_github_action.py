"""The workflow of the examples: valid by GitHub's schema, and its steps do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are another package

from tests.orchestrator.loopkit import ASK, BIN, DONE, SETTINGS, World

if TYPE_CHECKING:
    from collections.abc import Mapping

WORKFLOW = Path(__file__).resolve().parents[2] / "examples" / "github_action" / "loopwright.yml"
READ: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text("utf-8"))
HOSTILE = '"; touch hacked; $(touch hacked) `touch hacked` #'


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a repository with one commit and quick settings."""
    return World(tmp_path)


GH = """\
#!/bin/sh
echo "$@" >>{log}
for last; do :; done
case "$*" in *--body-file*) cat "$last" >>{log} ;; esac
"""


def test_it_is_valid_by_the_schema_of_github_workflows() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows",
         str(WORKFLOW)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_runs_the_agent_can_write_nothing_and_no_text_of_others_is_in_a_script() -> None:
    assert READ["permissions"] == {}
    assert READ["jobs"]["work"]["permissions"] == {"contents": "read"}
    for job in READ["jobs"].values():
        assert job["timeout-minutes"]
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "a script takes texts from its variables"
    checkout = READ["jobs"]["work"]["steps"][0]["with"]
    assert checkout["persist-credentials"] is False


def _step(job: str, name: str) -> Mapping[str, Any]:
    [found] = [each for each in READ["jobs"][job]["steps"] if each.get("name") == name]
    return dict(found)


class _Runner:
    """A machine of GitHub Actions, as far as the scripts of the workflow see it."""

    def __init__(self, world: World) -> None:
        self.world, self.temp = world, world.folder / "temp"
        self.temp.mkdir()
        self.output = self.temp / "output"
        self.log = world.folder / "gh.log"
        gh = world.folder / "bin" / "gh"
        gh.parent.mkdir()
        gh.write_text(GH.format(log=self.log))
        gh.chmod(0o755)
        self.origin = world.folder / "origin.git"
        world.git("clone", "-q", "--bare", ".", str(self.origin))

    def run(self, job: str, name: str, where: Path, **given: str) -> None:
        """Run a step as a runner does: the script of the workflow, in bash, with its variables."""
        step = _step(job, name)
        own = {key: value for key, value in step["env"].items() if "${{" not in value}
        event = {"NUMBER": "12", "TITLE": HOSTILE, "BODY": HOSTILE, "BASE": "main"}
        (self.temp / "config").touch()
        env = {
            **{key: os.environ[key] for key in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")},
            **own, **event, **given,
            "PATH": f"{self.world.folder / 'bin'}:{BIN}:/usr/bin:/bin",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.output),
            "GIT_CONFIG_GLOBAL": str(self.temp / "config"),
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=where, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert not list(where.rglob("hacked"))

    def work(self, script: object) -> None:
        command = self.world.script("agent", script)
        assert _step("work", "Work on the issue")["env"]["LOOPWRIGHT_ADAPTER"] == "claude"
        # Another program in its place, which tells no costs; the rest is as it stands.
        more = {
            "LOOPWRIGHT_COMMAND": command,
            "LOOPWRIGHT_ADAPTER": "",
            "LOOPWRIGHT_BUDGET_USD": "",
        }
        self.run("work", "Work on the issue", self.world.repo, **more)

    def hand_over(self) -> str:
        """Run the second job in a fresh checkout, on what the first one left."""
        fresh = self.world.folder / "fresh"
        self.world.git("clone", "-q", str(self.origin), str(fresh))
        code = dict(line.split("=") for line in self.output.read_text().splitlines())["code"]
        self.run("hand-over", "Open the pull request, or say what is missing", fresh, CODE=code)
        return self.log.read_text()


@pytest.mark.timeout(240)
def test_verified_work_becomes_a_pull_request(world: World) -> None:
    world.settings(f'{SETTINGS}verify = ["test -f a.txt"]\n')
    world.git("commit", "-qam", "Settings")
    runner = _Runner(world)
    runner.work([{"write": {"path": "a.txt", "text": "one\n"}}, {"commit": "Work"}, DONE])
    said = runner.hand_over()
    assert f"pr create --base main --head loopwright/issue-12 --title {HOSTILE}" in said
    assert "Closes #12" in said
    assert "\n    " in said, "what agents said is an indented block"
    done = subprocess.run(
        ["git", "show", "loopwright/issue-12:a.txt"],
        cwd=runner.origin, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "one\n"


@pytest.mark.timeout(240)
def test_a_question_becomes_a_comment_on_the_issue(world: World) -> None:
    runner = _Runner(world)
    runner.work([ASK])
    said = runner.hand_over()
    assert said.startswith("issue comment 12 ")
    assert "exit code 3" in said
    assert "Blue or green?" in said
    assert "pr create" not in said
