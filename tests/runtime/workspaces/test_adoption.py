"""A branch that another machine worked on is taken over, and nothing that was here is lost."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from runtime.errors import CheckedOutError, RuntimeFault, WorkspaceError
from runtime.git.ownership import GIVEN_REFS, SAVED_REFS
from runtime.remote.remote import GitRemote
from runtime.workspace import Workspace, WorkspaceManager
from runtime.workspaces.adoption import BranchLine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., str]

HERE, THERE = "one", "two"
BRANCH = "agent/a"


@dataclass
class Machine:
    """A clone of the remote, as a machine has it."""

    repo: Path
    git: Cli
    seen: str | None = None
    """Where the branch was there when it was last looked at from here."""

    def __post_init__(self) -> None:
        self.manager = WorkspaceManager(self.repo, root=self.repo.with_suffix(".work"))
        url = self.git(self.repo, "remote", "get-url", "origin")
        self.remote = GitRemote(self.repo, url=url, environ=os.environ)

    def commit(self, workspace: Workspace, name: str) -> str:
        (workspace.path / name).write_text(f"{name} of {self.repo.name}\n")
        self.git(workspace.path, "add", name)
        self.git(workspace.path, "commit", "-qm", f"{name} on {self.repo.name}")
        return self.git(workspace.path, "rev-parse", "HEAD")

    async def push(self, sha: str) -> None:
        outcome = await self.remote.push(BRANCH, sha, expected=self.seen, header={})
        assert outcome.done, outcome.reason
        self.seen = sha

    async def adopt(self, base: str, *, latest: bool = False) -> Workspace:
        self.seen = head = await self.remote.fetch(BRANCH, header={})
        assert head is not None
        line = BranchLine(head=head, base_commit=base, base_branch="main")
        return await self.manager.adopt("a", line, 2, latest=latest)

    def saved(self, ref: str, name: str) -> str:
        return self.git(self.repo, "show", f"{SAVED_REFS}a/{ref}:{name}")


@pytest.fixture
def machines(git_repo: Path, git_cli: Cli, tmp_path: Path) -> tuple[Machine, Machine]:
    bare = tmp_path / "bare.git"
    git_cli(tmp_path, "clone", "-q", "--bare", str(git_repo), str(bare))
    for name in (HERE, THERE):
        git_cli(tmp_path, "clone", "-q", str(bare), str(tmp_path / name))
    return Machine(tmp_path / HERE, git_cli), Machine(tmp_path / THERE, git_cli)


async def begun(machine: Machine) -> tuple[Workspace, str]:
    """Let an agent make its first commit, and publish it."""
    workspace = await machine.manager.prepare("a", base="main")
    head = machine.commit(workspace, "first")
    await machine.push(head)
    return workspace, head


async def test_where_nothing_is_the_branch_is_taken_as_it_is(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    workspace, head = await begun(one)
    there = await two.adopt(workspace.base_commit)
    assert (there.path / "first").read_text() == "first of one\n"
    assert there.base_commit == workspace.base_commit
    assert (there.branch, there.base_branch, there.notes) == (BRANCH, "main", ())
    assert (await two.manager.status(there)).head == head
    await two.push(two.commit(there, "second"))
    assert await two.adopt(workspace.base_commit) == there


async def test_a_stale_workspace_comes_to_the_newest_work(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    workspace, _ = await begun(one)
    there = await two.adopt(workspace.base_commit)
    await two.push(two.commit(there, "second"))
    back = await one.adopt(workspace.base_commit)
    assert (back.path / "second").read_text() == "second of two\n"
    assert (await one.manager.status(back)).dirty == ()


@pytest.mark.parametrize("moved", [True, False], ids=["moved on elsewhere", "as it was"])
async def test_what_is_uncommitted_here_is_saved_first(
    machines: tuple[Machine, Machine], *, moved: bool
) -> None:
    one, two = machines
    workspace, _ = await begun(one)
    (workspace.path / "draft").write_text("half done\n")
    (workspace.path / "first").write_text("changed\n")
    if moved:
        await two.push(two.commit(await two.adopt(workspace.base_commit), "second"))
    back = await one.adopt(workspace.base_commit)
    assert (await one.manager.status(back)).dirty == ()
    assert one.saved("2", "draft") == "half done"
    assert one.saved("2", "first") == "changed"
    assert "saved in refs/loopwright/saved/a/2" in "".join(back.notes)


async def test_of_a_branch_that_diverged_theirs_is_taken_and_ours_saved(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    workspace, _ = await begun(one)
    there = await two.adopt(workspace.base_commit)
    ours = one.commit(workspace, "ours")
    await two.push(two.commit(there, "theirs"))
    back = await one.adopt(workspace.base_commit, latest=True)
    assert (back.path / "theirs").exists()
    assert not (back.path / "ours").exists()
    ref = f"head-{ours[:12]}"
    assert one.saved(ref, "ours") == "ours of one"
    assert f"ours is saved in {SAVED_REFS}a/{ref}" in "".join(back.notes)
    assert (await one.manager.saved_refs("a")) == {f"{SAVED_REFS}a/{ref}": ours}
    assert (await one.remote.push_refs({f"{SAVED_REFS}a/{ref}": ours}, header={})).done
    assert await two.remote.fetch_refs(f"{SAVED_REFS}a/", header={})
    assert two.saved(ref, "ours") == "ours of one"


@pytest.mark.parametrize("latest", [True, False])
async def test_unpublished_work_of_the_last_attempt_stays_where_it_was_made(
    machines: tuple[Machine, Machine], *, latest: bool
) -> None:
    one, _ = machines
    workspace, _ = await begun(one)
    ahead = one.commit(workspace, "ahead")
    (workspace.path / "draft").write_text("half done\n")
    back = await one.adopt(workspace.base_commit, latest=latest)
    assert (back.path / "ahead").exists() is (back.path / "draft").exists() is latest
    if not latest:
        assert one.saved(f"head-{ahead[:12]}", "ahead") == "ahead of one"
        assert one.saved("2", "draft") == "half done"


async def test_a_branch_that_the_user_has_checked_out_is_left_alone(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    workspace, head = await begun(one)
    await two.adopt(workspace.base_commit)
    await one.push(one.commit(workspace, "second"))
    two.git(two.repo, "worktree", "remove", "--force", str(two.manager.root / "a"))
    two.git(two.repo, "checkout", "-q", BRANCH)
    with pytest.raises(CheckedOutError, match="is checked out at"):
        await two.adopt(workspace.base_commit)
    assert two.git(two.repo, "rev-parse", "HEAD") == head


async def test_what_is_not_ours_is_neither_moved_nor_removed(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    workspace, _ = await begun(one)
    theirs = two.git(two.repo, "rev-parse", "main")
    two.git(two.repo, "branch", BRANCH, "main")
    with pytest.raises(WorkspaceError, match="was not made for this agent"):
        await two.adopt(workspace.base_commit)
    assert two.git(two.repo, "rev-parse", BRANCH) == theirs
    two.git(two.repo, "branch", "-D", BRANCH)
    (two.manager.root / "a").mkdir(parents=True)
    (two.manager.root / "a" / "notes").write_text("mine\n")
    with pytest.raises(WorkspaceError, match="is not a workspace of this agent"):
        await two.adopt(workspace.base_commit)
    assert (two.manager.root / "a" / "notes").read_text() == "mine\n"


async def test_a_ref_that_holds_other_work_there_keeps_it(
    machines: tuple[Machine, Machine],
) -> None:
    one, _ = machines
    ref = f"{SAVED_REFS}a/1"
    commits = []
    for machine in machines:
        workspace = await machine.manager.prepare("a", base="main")
        commits.append(machine.commit(workspace, "draft"))
        assert (await machine.remote.push_refs({ref: commits[-1]}, header={})).done
    found = await one.remote.fetch_refs(f"{SAVED_REFS}a/", header={})
    assert found == {ref: commits[0], f"{ref}-{commits[1][:12]}": commits[1]}
    assert one.saved(f"1-{commits[1][:12]}", "draft") == "draft of two"


async def test_refs_go_only_below_our_own_and_never_through_a_link_of_an_agent(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    main = two.git(two.repo, "rev-parse", "main")
    workspace = await one.manager.prepare("a", base="main")
    sha = one.commit(workspace, "given")
    assert (
        "not one of the runner's own refs"
        in (await one.remote.push_refs({"refs/heads/main": sha}, header={})).reason
    )
    assert (await one.remote.push_refs({f"{GIVEN_REFS}a/{sha}": sha}, header={})).done
    link = two.repo / ".git" / GIVEN_REFS / "a" / sha
    link.parent.mkdir(parents=True)
    link.write_text("ref: refs/heads/main\n")
    found = await two.remote.fetch_refs(f"{GIVEN_REFS}a/", header={})
    assert found == {f"{GIVEN_REFS}a/{sha}": sha}
    assert two.git(two.repo, "rev-parse", "main") == main
    assert two.git(two.repo, "rev-parse", f"{GIVEN_REFS}a/{sha}") == sha


async def test_without_the_other_end_nothing_is_changed_and_the_reason_is_said(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    one, _ = machines
    workspace, head = await begun(one)
    (tmp_path / "bare.git").rename(tmp_path / "away.git")
    outcome = await one.remote.push_refs({f"{SAVED_REFS}a/1": head}, header={})
    assert not outcome.done
    assert "bare.git" in outcome.reason
    with pytest.raises(RuntimeFault, match=r"bare\.git"):
        await one.remote.fetch_refs(f"{SAVED_REFS}a/", header={})
    assert (await one.manager.status(workspace)).head == head
