"""With what `init` proposes, and nothing else, a broken change is red and a right one is green."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.setups.projects import INDEX, PROJECTS, Project
from tests.setups.tools import home, index
from tests.tools.machine import gives

LOOPWRIGHT = Path(sys.executable).parent / "loopwright"
AGENT = LOOPWRIGHT.with_name("loopwright-agent")
ROOT = Path(__file__).parents[2]
PATIENCE = 240


class Person:
    """Somebody at a shell in a repository."""

    def __init__(self, folder: Path, project: Project, path: str) -> None:
        self.folder, self.repo, self.project = folder, folder / "repo", project
        self.env = {
            "PATH": path, "HOME": str(home()), "LANG": "C.UTF-8",
            "LOOPWRIGHT_RETRY_INTERVAL": "0.1", "XDG_STATE_HOME": str(folder / "state"),
            **{
                name: value
                for name, value in os.environ.items()
                if name.startswith(("GIT_", "XDG_CONFIG"))
                or name.lower().endswith(("_proxy", "_bundle", "ca_certs", "cert_file", "pip_cert"))
            },
        }  # fmt: skip

    def does(self, command: str, code: int | None = 0) -> str:
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.repo, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert code in (done.returncode, None), f"{command}: {done.returncode}\n{said}"
        return said

    def begins(self) -> None:
        """Make the repository, and set the own checkout up as people do."""
        for name, text in {
            **self.project.files,
            ".gitignore": "".join(f"{each}\n" for each in self.project.ignored),
        }.items():
            file = self.repo / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace(INDEX, index()) if INDEX in text else text)
        self.does("git init --quiet")
        for command in self.project.before:
            self.does(command)
        self.does("git add -A && git commit --quiet -m First")
        for command in self.project.after:
            self.does(command)
        if self.project.active:
            self.env["VIRTUAL_ENV"] = f"{self.repo}/.venv"
            self.env["PATH"] = f"{self.repo}/.venv/bin{os.pathsep}{self.env['PATH']}"

    def runs(self, **variables: str) -> tuple[list[str], str]:
        """Let the agent work; returns how each attempt ended, and what was said."""
        self.env |= variables
        told = self.does(f"{LOOPWRIGHT} init")
        told += self.does(
            f"{LOOPWRIGHT} run 'Change add' --plain --max-retries 2 "
            f"--command {shlex.quote(self.agent())}",
            code=None,
        )
        rows = json.loads(self.does(f"{LOOPWRIGHT} show agent-T001 --json"))
        return [row["outcome"] for row in rows["attempts"]], told

    def agent(self) -> str:
        """Write an agent that is wrong first and then right; returns its command."""

        def change(text: str) -> list[dict[str, Any]]:
            return [
                {"write": {"path": self.project.changed, "text": text}},
                {"commit": "Change add"},
                {"breakpoint": {"type": "task_complete", "summary": "all tests pass"}},
            ]

        script = self.folder / "agent.json"
        attempts = {"1": change(self.project.wrong), "default": change(self.project.right)}
        script.write_text(json.dumps({"attempts": attempts}))
        return shlex.join([str(AGENT), str(script)])


@pytest.fixture
def person(request: pytest.FixtureRequest, tmp_path: Path, tools: str) -> Person:
    made = Person(tmp_path.resolve(), PROJECTS[request.param], tools)
    made.begins()
    return made


@pytest.mark.timeout(300)
@pytest.mark.parametrize("person", sorted(PROJECTS), indirect=True)
def test_what_init_proposes_is_red_for_a_broken_change_and_green_for_a_right_one(
    person: Person,
) -> None:
    outcomes, told = person.runs()
    assert "fails before any work" not in told, told
    assert outcomes == ["gate_failed", "task_complete"], told
    person.does(f"{LOOPWRIGHT} accept agent-T001 && git diff --quiet")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("person", ["src layout, editable", "npm workspace"], indirect=True)
def test_without_a_set_up_no_change_is_green_and_it_is_said_why(person: Person) -> None:
    outcomes, told = person.runs(LOOPWRIGHT_SETUP="[]")
    assert "task_complete" not in outcomes, told
    shown = person.does(f"{LOOPWRIGHT} show agent-T001; {LOOPWRIGHT} doctor", code=None)
    assert "setup" in told + shown


@pytest.mark.timeout(300)
@pytest.mark.parametrize("person", ["src layout, editable"], indirect=True)
def test_an_editable_install_outside_is_refused_before_the_first_attempt(person: Person) -> None:
    """Here the environment is not in the repository, so nothing of it is held back."""
    person.does(
        f"mv .venv {person.folder}/env && sed -i 1s,^.*$,'#!{person.folder}/env/bin/python3', "
        f"{person.folder}/env/bin/pytest"
    )
    person.env["PATH"] = person.env["PATH"].replace(f"{person.repo}/.venv", f"{person.folder}/env")
    outcomes, told = person.runs(LOOPWRIGHT_SETUP="[]")
    assert outcomes == [], told
    assert f"calc would be the code in {person.repo}/src" in told
    assert "setup = [" in told


@pytest.mark.timeout(300)
@pytest.mark.parametrize("person", ["src layout, editable", "npm workspace"], indirect=True)
def test_a_sandbox_runs_what_the_process_level_runs(person: Person) -> None:
    if not gives(isolation="container"):
        return
    # Where the script of the agent, its program and the package managers lie.
    opened = [person.agent().split()[-1], str(ROOT), *person.env["PATH"].split(os.pathsep)[:2]]
    tools = Path(shutil.which("npm", path=person.env["PATH"]) or "").resolve().parents[2]
    outcomes, told = person.runs(
        LOOPWRIGHT_ISOLATION="container",
        LOOPWRIGHT_SANDBOX_READABLE="\n".join([*opened, str(tools)]),
    )
    assert outcomes == ["gate_failed", "task_complete"], told
