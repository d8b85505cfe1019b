"""Completion scripts: complete, well-formed, and working in a real bash."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from orchestrator.cli import completion_scripts
from orchestrator.cli.main import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.filled import Cli


@pytest.fixture(scope="module")
def bash_script() -> str:
    """Return the script for bash."""
    return completion_scripts.script("bash")


def complete(tmp_path: Path, script: str, *words: str, cwd: Path | None = None) -> list[str]:
    """Ask a real bash what it offers for the last of the words."""
    programs = tmp_path / "programs"
    programs.mkdir(exist_ok=True)
    command = programs / "loopwright"
    command.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m orchestrator.cli.main "$@"\n'
    )
    command.chmod(0o755)
    typed = " ".join(shlex.quote(word) for word in ("loopwright", *words))
    lines = f"""
    PATH={shlex.quote(str(programs))}:$PATH
    {script}
    COMP_WORDS=({typed}); COMP_CWORD={len(words)}
    _loopwright
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", lines],
        cwd=cwd or tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [word for word in done.stdout.split("\n") if word]


def test_commands_are_offered(tmp_path: Path, bash_script: str) -> None:
    assert set(COMMANDS) <= set(complete(tmp_path, bash_script, ""))
    assert complete(tmp_path, bash_script, "sum") == ["summary"]


def test_options_of_a_command_are_offered(tmp_path: Path, bash_script: str) -> None:
    assert complete(tmp_path, bash_script, "ps", "--st") == ["--state"]
    assert complete(tmp_path, bash_script, "show", "--") == ["--help", "--why", "--json", "--repo"]


def test_values_of_options_and_words_are_offered(tmp_path: Path, bash_script: str) -> None:
    assert complete(tmp_path, bash_script, "ps", "--state", "gi") == ["given-up"]
    assert complete(tmp_path, bash_script, "schema", "pl") == ["plan"]
    assert complete(tmp_path, bash_script, "completion", "") == [
        *("bash", "zsh", "fish"),
        *("-h", "--help"),
    ]
    assert complete(tmp_path, bash_script, "help", "acc") == ["accept"]


def test_folders_and_files_are_offered_where_they_belong(tmp_path: Path, bash_script: str) -> None:
    (tmp_path / "some-folder").mkdir()
    (tmp_path / "some-file").touch()
    assert complete(tmp_path, bash_script, "ps", "--repo", "some") == ["some-folder"]
    offered = complete(tmp_path, bash_script, "export", "--output", "some")
    assert sorted(offered) == ["some-file", "some-folder"]


def test_agent_ids_are_offered_of_the_repository_around_or_named(
    filled: Cli, tmp_path: Path, bash_script: str
) -> None:
    def offer(*words: str, cwd: Path) -> list[str]:
        return complete(tmp_path, bash_script, *words, cwd=cwd)

    assert offer("show", "agent-T003", cwd=filled.repo) == ["agent-T003"]
    assert len(offer("accept", "agent-", cwd=filled.repo)) == 5
    assert offer("logs", "--repo", str(filled.repo), "agent-T001", cwd=tmp_path) == ["agent-T001"]
    assert offer("show", "agent-", cwd=tmp_path) == []
    assert "edit" in offer("summary", "", cwd=filled.repo)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_every_script(shell: str) -> None:
    text = completion_scripts.script(shell)
    for command in completion_scripts._commands():
        assert command.name in text
        for option in command.options:
            for name in option.names:
                bare = name.lstrip("-")
                shown = f"-l {bare} " if len(bare) > 1 else f"-s {bare} "
                assert (shown if shell == "fish" else name) in text


def test_scripts_are_well_formed() -> None:
    bash = completion_scripts.script("bash")
    done = subprocess.run(["bash", "-n"], input=bash, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    quoted = [line.strip() for line in completion_scripts.script("zsh").splitlines()]
    for line in quoted:
        if line.startswith("'"):
            shlex.split(line.removesuffix(";;").rstrip(" \\"))
    for line in completion_scripts.script("fish").splitlines():
        shlex.split(line.replace("\\'", ""), comments=True)
