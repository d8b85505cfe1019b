"""Running things in a sandbox as this machine can make it, and what is asserted where it cannot."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from runtime.errors import SandboxUnavailableError
from runtime.isolation.command_line import wrapped
from runtime.isolation.probe import choose

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.isolation.probe import SandboxChoice
    from runtime.isolation.sandbox import Sandbox

PATIENCE = 30.0


def given(level: str = "container", *, network: bool = False) -> SandboxChoice | None:
    """Choose as the runner does; where it is refused, the refusal has to say why and what helps."""
    try:
        return choose(level, network=network)
    except SandboxUnavailableError as error:
        refusal = error
    assert refusal.reason
    assert refusal.remedy
    assert refusal.reason in str(refusal)
    assert refusal.remedy in str(refusal)
    return None


def run(
    sandbox: Sandbox, *command: str, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command in a sandbox, with its output and errors together."""
    line = wrapped(command, sandbox.workspace, env, sandbox)
    return subprocess.run(
        line.command,
        cwd=sandbox.workspace,
        env=line.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def sh(
    sandbox: Sandbox, script: str, *, home: Path, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a sandbox."""
    basics = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    return run(sandbox, "/bin/sh", "-c", script, env=basics | env)
