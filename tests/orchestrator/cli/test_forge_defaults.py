"""Who waits for people at a forge waits on and reminds them, unless a limit is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.plan import Task
from orchestrator.cli.run_loops import CommandContext

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400.0


@pytest.mark.parametrize(
    ("text", "reminder"),
    [
        ("", 0.0),
        ('providers = ["gitea"]', 7 * DAY),
        ('providers = ["github", "generic"]', 7 * DAY),
        ('providers = ["gitlab"]\npr_reminder = 86400', DAY),
        ('providers = ["gitlab"]\npr_merge_timeout = 60', 0.0),
        ("pr_reminder = 86400", DAY),
    ],
)
def test_how_long_a_pull_request_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reminder: float
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "loopwright.toml").write_text(text)
    context = CommandContext.of(repo)
    assert context.settings().policy(Task(id="T1", title="x")).pr_reminder == reminder
