"""Running things in a box as this machine can make it, and what is asserted where it cannot."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from runtime.isolation.errors import IsolationUnavailableError
from runtime.isolation.probe import choose
from runtime.isolation.wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.isolation.box import Box
    from runtime.isolation.probe import Choice

PATIENCE = 30.0


def given(level: str = "container", *, network: bool = False) -> Choice | None:
    """Choose as the runner does; where it is refused, the refusal has to say why and what helps."""
    try:
        return choose(level, network=network)
    except IsolationUnavailableError as error:
        refusal = error
    assert refusal.reason
    assert refusal.remedy
    assert refusal.reason in str(refusal)
    assert refusal.remedy in str(refusal)
    return None


def run(box: Box, *command: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a box, with its output and errors together."""
    line = wrapped(command, box.workspace, env, box)
    return subprocess.run(
        line.command,
        cwd=box.workspace,
        env=line.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def sh(box: Box, script: str, *, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a box."""
    basics = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    return run(box, "/bin/sh", "-c", script, env=basics | env)
