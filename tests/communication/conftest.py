"""What an agent has in its environment to signal with, and a mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from communication.mcp.tools import Toolbox
from tests.communication.hearing import AGENT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where the mailbox is."""
    return tmp_path / "communications.json"


@pytest.fixture
def env(file: Path) -> dict[str, str]:
    """Return the variables of an attempt."""
    return {
        "LOOPWRIGHT_COMM_FILE": str(file),
        "LOOPWRIGHT_AGENT_ID": AGENT,
        "LOOPWRIGHT_TASK_ID": "T001",
        "LOOPWRIGHT_SPAWN_ID": "spawn-7",
        "LOOPWRIGHT_ATTEMPT": "3",
        "LOOPWRIGHT_SUMMARY_FILE": str(file.with_name("summary.md")),
    }


@pytest.fixture
def tools(env: dict[str, str]) -> Toolbox:
    """Return the tools of the agent."""
    return Toolbox(env)
