"""A sandbox made by podman for real, from a root folder with little more than a shell in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from typing import TYPE_CHECKING

import pytest

from runtime.isolation.command_line import wrapped
from runtime.isolation.probe import probe
from runtime.isolation.sandbox import Sandbox, SandboxEngine
from runtime.limits import Limits
from tests.runtime.isolation.inside import PATIENCE
from tests.runtime.isolation.test_end import POLITE, heard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.isolation.command_line import CommandLine

PROGRAMS = ("/bin/sh", "/bin/true", "/bin/cat", "/bin/ls", "/bin/sleep")

TRIES = 10
"""Podman that is told to end before it passes on what it is told ends alone, without a word."""


def fill(root: Path) -> None:
    """Copy some programs and the libraries they name."""
    for name in ("proc", "sys", "dev", "tmp", "etc", "run"):
        (root / name).mkdir(parents=True)
    said = subprocess.run(["ldd", *PROGRAMS], capture_output=True, text=True, check=False).stdout
    libraries = {word for word in said.split() if word.startswith("/") and not word.endswith(":")}
    for name in (*PROGRAMS, *libraries):
        copy = root / name.removeprefix("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, copy)


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[Sandbox | None]:
    """Return a sandbox of podman; where none can be made, see to it that the reason is told."""
    root, workspace = tmp_path / "root", tmp_path / "workspace"
    fill(root)
    workspace.mkdir()
    found = probe.__wrapped__(SandboxEngine.PODMAN, str(root))
    if not found.works:
        assert found.reason
        assert found.remedy
        yield None
        return
    yield Sandbox(
        workspace,
        engine=SandboxEngine.PODMAN,
        program=found.program,
        options=found.options,
        image=str(root),
    )


def line_for(sandbox: Sandbox, script: str, limits: Limits | None = None) -> CommandLine:
    spawn = f"test-{uuid.uuid4().hex}"
    env = {"HOME": "/root", "NOTE": "a note", "LOOPWRIGHT_SPAWN_ID": spawn}
    env["PATH"] = os.environ["PATH"]
    return wrapped(("/bin/sh", "-c", script), sandbox.workspace, env, sandbox, limits)


def said(line: CommandLine) -> str:
    done = subprocess.run(
        line.command,
        env=line.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout


def clean_up(line: CommandLine) -> str:
    """Remove the container, and tell what is left of it."""
    subprocess.run(line.cleanup, env=line.env, capture_output=True, check=True, timeout=PATIENCE)
    name = line.cleanup[-1]
    listing = (line.command[0], "ps", "--all", "--format={{.Names}}", f"--filter=name={name}")
    return subprocess.run(listing, env=line.env, capture_output=True, text=True, check=True).stdout


def test_a_container_holds_its_claims(contained: Sandbox | None) -> None:
    if contained is None:
        return
    script = (
        "cat /proc/self/status; cat /proc/net/dev; echo $NOTE; pwd; echo x > /new; echo x > f;"
        "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; ls"
    )
    words = said(line_for(contained, script, Limits(processes=20, memory_mb=64)))
    assert "NoNewPrivs:\t1" in words
    assert "CapEff:\t0000000000000000" in words
    assert "eth0" not in words
    assert "a note" in words
    assert str(contained.workspace) in words
    assert "Read-only file system" in words
    assert "annot fork" in words
    assert (contained.workspace / "f").stat().st_uid == os.getuid()


def told_to_end(sandbox: Sandbox) -> tuple[str, int]:
    """Tell a container that has begun to end; return its last word and its exit."""
    line = line_for(sandbox, POLITE)
    with subprocess.Popen(line.command, env=line.env, stdout=subprocess.PIPE, text=True) as polite:
        assert heard(polite) == "up"
        polite.terminate()
        ends = heard(polite), polite.wait(PATIENCE)
    assert clean_up(line) == ""
    return ends


def test_a_container_ends_when_told_and_is_removed_when_its_starter_was_killed(
    contained: Sandbox | None,
) -> None:
    if contained is None:
        return
    told = (told_to_end(contained) for _ in range(TRIES))
    assert next(ends for ends in told if ends[0]) == ("bye", 7)
    line = line_for(contained, POLITE)
    with subprocess.Popen(line.command, env=line.env, stdout=subprocess.PIPE, text=True) as killed:
        assert heard(killed) == "up"
        killed.kill()
    assert clean_up(line) == ""
