"""With what `init` proposes, and nothing else, a broken change is red and a right one is green."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.setups.projects import PROJECTS, Project
from tests.setups.tools import home

LOOPWRIGHT = Path(sys.executable).parent / "loopwright"
AGENT = LOOPWRIGHT.with_name("loopwright-agent")
PATIENCE = 240


class Person:
    """Somebody at a shell in a repository."""

    def __init__(self, folder: Path, project: Project, path: str) -> None:
        self.folder, self.repo, self.project = folder, folder / "repo", project
        self.env = {
            "PATH": path, "HOME": str(home()), "LANG": "C.UTF-8",
            "LOOPWRIGHT_RETRY_INTERVAL": "0.1",
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
            file.write_text(text)
        self.does("git init --quiet")
        for command in self.project.before:
            self.does(command)
        self.does("git add -A && git commit --quiet -m First")
        for command in self.project.after:
            self.does(command)
        if self.project.active:
            self.env["VIRTUAL_ENV"] = f"{self.repo}/.venv"
            self.env["PATH"] = f"{self.repo}/.venv/bin{os.pathsep}{self.env['PATH']}"

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


@pytest.fixture(params=sorted(PROJECTS))
def person(request: pytest.FixtureRequest, tmp_path: Path, tools: str) -> Person:
    made = Person(tmp_path.resolve(), PROJECTS[request.param], tools)
    made.begins()
    return made


@pytest.mark.timeout(300)
def test_what_init_proposes_is_red_for_a_broken_change_and_green_for_a_right_one(
    person: Person,
) -> None:
    told = person.does(f"{LOOPWRIGHT} init")
    said = person.does(
        f"{LOOPWRIGHT} run 'Change add' --plain --max-retries 2 "
        f"--command {shlex.quote(person.agent())}",
        code=None,
    )
    assert "fails before any work" not in said, f"{told}\n{said}"
    rows = json.loads(person.does(f"{LOOPWRIGHT} show agent-T001 --json"))
    outcomes = [row["outcome"] for row in rows["attempts"]]
    assert outcomes == ["gate_failed", "task_complete"], f"{told}\n{said}"
    person.does(f"{LOOPWRIGHT} accept agent-T001 && git diff --quiet")
