"""What a child inherits leads to no code of the user's own checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.code_origin.working_trees import Trees
from runtime.commands import CommandRunner
from runtime.environment import at_home_in, cleared
from runtime.process import SpawnOrder, TerminalManager


def program(folder: Path, name: str, said: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    made.write_text(f"#!/bin/sh\necho {said}\n")
    made.chmod(0o755)
    return made


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git" / "refs").mkdir(parents=True)
    (tmp_path / "repo" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return (tmp_path / "repo").resolve()


def test_what_leads_into_the_users_tree_is_taken_out_and_told(repo: Path) -> None:
    mine, other = f"{repo}/.venv/bin", f"{repo}-other/bin"
    found = cleared(
        {
            "PATH": f"{mine}:/usr/bin:{other}:node_modules/.bin",
            "PYTHONPATH": f"{repo}/src",
            "VIRTUAL_ENV": f"{repo}/.venv",
            "GOFLAGS": f"-modfile={repo}/go.mod -v",
            "npm_config_prefix": f"{repo}/node",
            "CARGO_TARGET_DIR": "/shared",
            "CREDENTIALS": f"{repo}/key.json",
        },
        Trees([repo]),
    )
    assert found.env == {
        "PATH": f"/usr/bin:{other}:node_modules/.bin",
        "CARGO_TARGET_DIR": "/shared",
        "CREDENTIALS": f"{repo}/key.json",
    }
    assert set(found.withheld) == {
        "PATH", "PYTHONPATH", "VIRTUAL_ENV", "GOFLAGS", "npm_config_prefix",
    }  # fmt: skip


def test_a_repository_that_is_the_home_folder_keeps_the_users_programs(repo: Path) -> None:
    (repo / ".venv" / "bin").mkdir(parents=True)
    (repo / ".venv" / "pyvenv.cfg").touch()
    path = f"{repo}/.local/bin:{repo}/.venv/bin:{repo}/node_modules/.bin"
    found = cleared({"PATH": path, "HOME": str(repo)}, Trees([repo]))
    assert found.env["PATH"] == f"{repo}/.local/bin"


def test_the_programs_of_a_folder_come_first_in_it(tmp_path: Path) -> None:
    assert at_home_in(tmp_path, {"PATH": "/usr/bin"}) == {}
    for each in (".venv/bin", "node_modules/.bin"):
        (tmp_path / each).mkdir(parents=True)
    assert "VIRTUAL_ENV" not in at_home_in(tmp_path, {})
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    assert at_home_in(tmp_path, {"PATH": "/usr/bin"}) == {
        "PATH": f"{tmp_path}/.venv/bin:{tmp_path}/node_modules/.bin:/usr/bin",
        "VIRTUAL_ENV": f"{tmp_path}/.venv",
    }


async def test_a_command_uses_the_programs_of_its_folder_and_never_those_of_the_users_checkout(
    repo: Path, tmp_path: Path
) -> None:
    program(repo / ".venv" / "bin", "judge", "the user's")
    environ = {"PATH": f"{repo}/.venv/bin:{os.defpath}", "PYTHONPATH": f"{repo}/src"}
    manager = TerminalManager(repo, environ=environ)
    runner, folder = CommandRunner(manager), tmp_path / "checkout"
    folder.mkdir()
    found = await runner.run(
        "judge; echo $PYTHONPATH", cwd=folder, log=tmp_path / "1.log", timeout=20, mark="a"
    )
    assert "not found" in found.excerpt
    assert str(repo) not in found.excerpt
    program(folder / ".venv" / "bin", "judge", "its own")
    for number, (made, said) in enumerate([((), "not found"), ((".venv/",), "its own\n")], 2):
        log = tmp_path / f"{number}.log"
        found = await runner.run("judge", cwd=folder, log=log, timeout=20, mark=log.stem, made=made)
        assert said in found.excerpt


async def test_the_agents_program_is_the_users_whatever_lies_in_the_folder(
    repo: Path, tmp_path: Path
) -> None:
    program(repo / ".venv" / "bin", "worker", "meant")
    folder = tmp_path / "workspace"
    program(folder / ".venv" / "bin", "worker", "planted")
    manager = TerminalManager(repo, environ={"PATH": f"{repo}/.venv/bin:{os.defpath}"})
    process = await manager.spawn(
        SpawnOrder(
            agent_id="a",
            attempt=1,
            spawn_id="s1",
            command=("worker",),
            cwd=folder,
            stdin=Path(os.devnull),
            log=tmp_path / "agent.log",
            env={},
            log_cap=1 << 20,
        )
    )
    await process.exit
    await process.stop(1.0)
    assert (tmp_path / "agent.log").read_text() == "meant\n"
