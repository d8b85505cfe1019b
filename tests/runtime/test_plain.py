"""Workspaces without git: the folder itself, which is never touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.errors import WorkspaceError
from runtime.plain import FolderWorkspaces
from runtime.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.ports import Workspaces


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    (made / "work.txt").write_text("work")
    return made


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_the_agent_works_in_the_folder_itself(folder: Path) -> None:
    plain: Workspaces = FolderWorkspaces(folder)
    workspace = await plain.prepare("agent-a", base="main")
    assert workspace == await plain.open("agent-a")
    assert await plain.is_whole(workspace)
    assert (workspace.path, workspace.branch, workspace.base_commit) == (folder, "", "")


async def test_what_git_would_say_is_said_to_be_unknown(folder: Path) -> None:
    plain: Workspaces = FolderWorkspaces(folder)
    workspace = await plain.prepare("agent-a")
    status = await plain.status(workspace)
    assert (status.head, status.fingerprint, status.dirty) == ("", "", ())
    assert status.branch == workspace.branch, "or it looks as if the agent left its branch"
    assert await plain.recent_commits(workspace, head="") == ()
    assert await plain.changed_files(workspace, head="") == ()


async def test_nothing_is_saved_or_removed(folder: Path) -> None:
    plain: Workspaces = FolderWorkspaces(folder)
    workspace = await plain.prepare("agent-a")
    assert await plain.save_dirty(workspace, 1, reason="stopped") is None
    assert await plain.remove("agent-a", drop_branch=True, attempt=1) is None
    assert names_in(folder) == ["work.txt"]


async def test_a_missing_folder_is_refused_with_its_name(tmp_path: Path) -> None:
    plain: Workspaces = FolderWorkspaces(tmp_path / "gone")
    assert await plain.open("agent-a") is None
    lost = Workspace("agent-a", tmp_path / "gone", "", "", None)
    assert not await plain.is_whole(lost)
    with pytest.raises(WorkspaceError, match=r"no folder .*/gone"):
        await plain.prepare("agent-a")


async def test_an_id_that_leaves_the_folder_is_refused(folder: Path) -> None:
    with pytest.raises(WorkspaceError, match="no usable agent id"):
        await FolderWorkspaces(folder).prepare("../elsewhere")
