"""What a worker says of agent programs on its machine: names of what is there, and what lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.settings import Settings
from orchestrator.cli.commands.worker import programs_here
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Have one agent program on the path, and one of the user's own."""
    (folder := tmp_path / "bin").mkdir()
    for name in ("codex", "my-agent"):
        (folder / name).write_text("#!/bin/sh\necho codex-cli 1.2.3\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path)}


def test_programs_are_told_by_the_names_that_plans_give_them(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    settings = Settings.model_validate({"agents": ["claude", "codex"]})
    programs, lacks = programs_here(tmp_path, settings, environ)
    assert programs == ("codex",)
    assert any("claude is not on PATH" in each for each in lacks)
    command = Settings.model_validate({"command": [str(tmp_path / "bin" / "my-agent")]})
    assert programs_here(tmp_path, command, environ)[0] == ("my-agent", "codex")


def test_a_program_without_which_nothing_starts_is_refused(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match="claude is not on PATH"):
        programs_here(tmp_path, Settings.model_validate({"agents": ["claude"]}), environ)
