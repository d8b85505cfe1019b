"""Whatever an agent does to hide a change from git: the runner sees it, and keeps it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.errors import WorkspaceError
from runtime.workspace import Workspace, WorkspaceManager
from tests.runtime.processes.hiding import HIDDEN, IGNORED, WORK, base_of, sparse_patterns

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runtime.processes.hiding import Way

    Cli = Callable[..., str]


async def prepared(git_repo: Path, git_cli: Cli) -> tuple[WorkspaceManager, Workspace]:
    base_of(git_repo, git_cli)
    manager = WorkspaceManager(git_repo)
    return manager, await manager.prepare("a")


def kept(git_repo: Path, git_cli: Cli) -> str:
    refs = git_cli(git_repo, "for-each-ref", "--format=%(refname)", "refs/loopwright/saved/a")
    return "\n".join(
        git_cli(git_repo, "log", "-p", "-m", "--all", "--text", ref) for ref in refs.split()
    )


@pytest.mark.parametrize("way", HIDDEN, ids=lambda way: way.__name__)
async def test_a_change_that_git_does_not_show_is_seen_and_kept(
    way: Way, git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace = await prepared(git_repo, git_cli)
    way(workspace.path, git_cli)
    if way is not sparse_patterns:  # newer versions of git look behind these
        assert git_cli(workspace.path, "status", "--porcelain") == "", "git itself sees nothing"
    assert (await manager.status(workspace)).changed == ("check.sh",)
    await manager.remove("a", drop_branch=True, attempt=1)
    assert WORK in kept(git_repo, git_cli)


@pytest.mark.parametrize("way", IGNORED, ids=lambda way: way.__name__)
async def test_what_only_rules_of_the_agent_ignore_is_named_and_kept(
    way: Way, git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace = await prepared(git_repo, git_cli)
    way(workspace.path, git_cli)
    status = await manager.status(workspace)
    assert any("helper" in name for name in status.hidden)
    assert status.dirty == ()
    await manager.remove("a", drop_branch=True, attempt=1)
    assert WORK in kept(git_repo, git_cli)


async def test_what_the_base_or_the_user_ignores_is_neither_named_nor_kept(
    git_repo: Path, git_cli: Cli
) -> None:
    ignored = Path(os.environ["HOME"]) / ".config" / "git" / "ignore"
    ignored.parent.mkdir(parents=True)
    ignored.write_text("*.swp\n")
    (git_repo / ".git/info/exclude").write_text("/local\n")
    manager, workspace = await prepared(git_repo, git_cli)
    for name in ("built/x.o", "deep/cache/x", "a.swp", "local"):
        (workspace.path / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace.path / name).write_text("x")
    status = await manager.status(workspace)
    assert (status.hidden, status.dirty) == ((), ())
    (workspace.path / "deep" / "kept").mkdir()
    (workspace.path / "deep" / "cache" / "important").write_text(WORK)
    assert (await manager.status(workspace)).untracked == ("deep/cache/important",)


async def test_a_cache_that_only_the_agent_ignores_is_left_out_and_holds_nothing_up(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace = await prepared(git_repo, git_cli)
    (workspace.path / ".gitignore").write_text("built\nnode_modules\nsmall\n")
    git_cli(workspace.path, "commit", "-qam", "ignore")
    (workspace.path / "node_modules").mkdir()
    (workspace.path / "small").write_text(WORK)
    with (workspace.path / "node_modules" / "huge").open("wb") as file:
        file.truncate(64 << 20)
    saved = await manager.save_dirty(workspace, 1, reason="end")
    assert saved is not None
    assert (saved.files, saved.left_out) == (("small",), ("node_modules/",))
    assert await manager.remove("a", drop_branch=True, attempt=1) is not None


async def test_what_git_never_looks_at_is_told_and_its_workspace_stays(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace = await prepared(git_repo, git_cli)
    (workspace.path / "deep" / ".git").mkdir()
    (workspace.path / "deep" / ".git" / "work").write_text(WORK)
    assert git_cli(workspace.path, "status", "--porcelain") == ""
    assert (await manager.status(workspace)).untracked == ("deep/.git",)
    with pytest.raises(WorkspaceError, match=r"deep/\.git"):
        await manager.remove("a", drop_branch=True, attempt=1)
    assert (workspace.path / "deep" / ".git" / "work").read_text() == WORK
