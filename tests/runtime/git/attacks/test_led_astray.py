"""What lies in the way of the runner's git leads it nowhere, stops it never and is named."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import runtime
from runtime.branches import BranchManager
from runtime.errors import RuntimeFault
from runtime.git.git import Git, inspect_repository
from runtime.remove_tree import remove_tree
from runtime.workspace import WorkspaceManager
from runtime.workspaces.judging_checkouts import JudgingCheckouts
from tests.runtime.git.attacks.bed import new_bed, plain_git

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runtime.git.attacks.bed import Bed

PRODUCT = Path(runtime.__file__).resolve().parents[1]
HOSTILE = (
    "--upload-pack=touch mark", "--output=mark", "--exec=touch mark", "-c", "--", "-",
    "../../HEAD", "../heads/main", "main\ntouch mark", "main;touch mark", "$(touch mark)",
    "a..b", "ref^{/x}", "main.lock", "/etc/passwd", "", "main\x7f", "é" * 300,
)  # fmt: skip


@pytest.fixture
async def bed(tmp_path: Path, template: Path) -> Bed:
    return await new_bed(tmp_path / "bed", template)


def test_no_other_module_of_the_product_starts_git() -> None:
    packages = ("runtime", "ci", "communication", "templates", "lifecycle", "orchestrator")
    starts = re.compile(r"""[(\[]\s*["']git["']\s*,|["']git (?!version)[a-z-]+ """)
    found = {
        str(file.relative_to(PRODUCT))
        for package in packages
        for file in (PRODUCT / package).rglob("*.py")
        if re.search(r"subprocess|Popen|run_to_end", text := file.read_text())
        and starts.search(text)
    }
    # The scripted agent is an agent: its git runs where agents run.
    assert found <= {
        "runtime/git/command.py",
        "runtime/git/git.py",
        "runtime/agents/script/steps.py",
    }


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_name_is_never_an_option_nor_a_path(
    name: str, bed: Bed, tmp_path: Path
) -> None:
    branches, manager = BranchManager(bed.repo), WorkspaceManager(bed.repo)
    refs = plain_git(bed.repo, "for-each-ref")
    assert await branches.head(name) is None
    assert not await branches.commit_exists(name)
    assert not await branches.delete(name)
    assert not await branches.is_contained(name, "main")
    assert not (await branches.merge(name, "main", message=name)).merged
    assert not (await branches.merge("main", name, message=name)).merged
    for action in (
        lambda: branches.is_conflicted("main", name),
        lambda: branches.join((name, "main"), message=name),
        lambda: JudgingCheckouts(bed.repo, root=tmp_path / "judging").lay_out("a", name),
        lambda: manager.prepare("n", base=name),
        lambda: manager.prepare(name),
    ):
        with pytest.raises(RuntimeFault):
            await action()
    for ask in (manager.recent_commits, manager.changed_files):
        if name:
            with pytest.raises(RuntimeFault):
                await ask(bed.workspace, head=name)
    assert plain_git(bed.repo, "for-each-ref") == refs
    assert [path for folder in (bed.repo, bed.work) for path in folder.glob("mark*")] == []
    assert not (tmp_path / "export").exists()


async def test_a_message_is_never_an_option(bed: Bed) -> None:
    merged = await BranchManager(bed.repo).merge("agent/a", "side", message="--amend\n\n-x\0y")
    assert merged.commit is not None
    assert plain_git(bed.repo, "log", "-1", "--format=%s", merged.commit) == "--amend"


def test_an_option_in_the_place_of_a_name_is_obeyed_by_a_careless_call(tmp_path: Path) -> None:
    plain_git(tmp_path, "init", "-q")
    mark = tmp_path / "mark"
    plain_git(tmp_path, "fetch", f"--upload-pack=touch {mark};false", ".")
    assert mark.exists()


def _pipe(config: Path) -> None:
    config.unlink()
    os.mkfifo(config)


def _folder(config: Path) -> None:
    config.unlink()
    config.mkdir()


def _nonsense(config: Path) -> None:
    config.write_text("[core\nnonsense")


def _unknown_extension(config: Path) -> None:
    config.write_text("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tplanted = true\n")


@pytest.mark.parametrize("spoil", [_pipe, _folder, _nonsense, _unknown_extension])
async def test_a_configuration_that_became_unreadable_stops_no_running_work_and_is_named_later(
    spoil: Callable[[Path], None], bed: Bed
) -> None:
    manager = WorkspaceManager(bed.repo)
    bed.dirty()
    before = await manager.status(bed.workspace)
    spoil(bed.common / "config")
    assert await manager.status(bed.workspace) == before
    assert await manager.save_dirty(bed.workspace, 1, reason="end") is not None
    with pytest.raises(RuntimeFault, match=re.escape(str(bed.common / "config"))):
        await WorkspaceManager(bed.repo).prepare("b")


async def test_a_way_out_of_the_main_folder_is_named_and_not_taken(
    bed: Bed, tmp_path: Path
) -> None:
    evil = tmp_path / "evil"
    plain_git(tmp_path, "init", "-q", str(evil))
    plain_git(evil, "config", "core.fsmonitor", bed.program())
    (bed.common / "commondir").write_text(f"{evil / '.git'}\n")
    plain_git(bed.repo, "status")
    assert bed.fired
    bed.mark.unlink()
    for action in (
        BranchManager(bed.repo).head("main"),
        WorkspaceManager(bed.repo).prepare("b"),
    ):
        with pytest.raises(RuntimeFault, match=re.escape(str(bed.common / "commondir"))):
            await action
    assert not bed.fired


async def test_a_worktree_that_was_led_elsewhere_is_put_right_whatever_comes_first(
    bed: Bed, tmp_path: Path
) -> None:
    plain_git(tmp_path, "init", "-q", "other")
    manager = WorkspaceManager(bed.repo)
    bed.dirty()

    def lead_astray() -> None:
        (bed.own / "commondir").write_text(f"{tmp_path / 'other' / '.git'}\n")

    lead_astray()
    assert not await manager.is_whole(bed.workspace)
    assert (await manager.status(bed.workspace)).branch == "agent/a"
    assert await manager.is_whole(bed.workspace)
    lead_astray()
    saved = await manager.remove("a", drop_branch=True, attempt=1)
    assert saved is not None
    assert plain_git(bed.repo, "rev-parse", saved.ref) == saved.commit
    assert plain_git(tmp_path / "other", "for-each-ref") == ""


async def test_a_repository_that_calls_itself_bare_is_named_with_what_to_do(bed: Bed) -> None:
    bed.config("core.bare", "true")
    with pytest.raises(RuntimeFault, match=r"core\.bare false"):
        await WorkspaceManager(bed.repo).prepare("b")
    with pytest.raises(RuntimeFault, match=r"core\.bare false"):
        inspect_repository(bed.repo).require_usable()


@pytest.mark.parametrize("file", ["gitdir", "commondir", "HEAD"])
async def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(file: str, bed: Bed) -> None:
    (bed.own / file).unlink()
    os.mkfifo(bed.own / file)
    async with asyncio.timeout(10):
        manager = WorkspaceManager(bed.repo)
        whole = await manager.is_whole(bed.workspace)
        assert whole is (file == "HEAD")
        await BranchManager(bed.repo).delete("side")


async def test_a_planted_link_does_not_lead_the_repair_elsewhere(bed: Bed) -> None:
    precious = bed.top / "precious"
    precious.write_text("precious\n")
    planted = bed.work / f".git.{os.getpid()}.new"
    planted.symlink_to(precious)
    planted.write_text("overwritten\n")  # as any program that just writes there
    assert precious.read_text() == "overwritten\n"
    precious.write_text("precious\n")
    (bed.work / ".git").unlink()
    workspace = await WorkspaceManager(bed.repo).prepare("a")
    assert workspace.notes
    assert precious.read_text() == "precious\n"
    assert bed.git("rev-parse", "--abbrev-ref", "HEAD") == "agent/a"


async def test_replaced_objects_do_not_change_what_a_commit_holds(bed: Bed) -> None:
    head = bed.git("rev-parse", "HEAD")
    bed.git("replace", head, bed.workspace.base_commit)
    assert "line 0 of the agent" not in bed.git("show", f"{head}:notes.txt")
    laid_out = await JudgingCheckouts(bed.repo, root=bed.top / "judging").lay_out("a", head)
    assert "line 0 of the agent" in (laid_out / "notes.txt").read_text()


async def test_configuration_that_changes_at_every_moment_never_gets_its_turn(bed: Bed) -> None:
    flips = (
        "import pathlib, sys\n"
        "config = pathlib.Path(sys.argv[1]); clean = config.read_text()\n"
        "evil = clean + '[core]\\n\\tfsmonitor = ' + sys.argv[2] + '\\n'\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for text in (evil, clean):\n"
        "        new = config.with_name('config.new'); new.write_text(text); new.replace(config)\n"
    )
    command = (sys.executable, "-c", flips, str(bed.common / "config"), bed.program())
    with subprocess.Popen(command, stdout=subprocess.PIPE) as flipping:  # noqa: ASYNC220  # to flip
        try:
            assert flipping.stdout is not None
            flipping.stdout.readline()
            for _ in range(200):
                bed.git("status")
                if bed.fired:
                    break
            assert bed.fired
            bed.mark.unlink()
            manager = WorkspaceManager(bed.repo)
            for _ in range(40):
                await manager.status(bed.workspace)
            assert not bed.fired
        finally:
            flipping.kill()


async def test_a_view_that_somebody_changed_or_removed_is_recreated(bed: Bed) -> None:
    manager = WorkspaceManager(bed.repo)
    before = await manager.status(bed.workspace)
    [view] = (bed.repo / ".loopwright" / "git").iterdir()
    plain_git(bed.top, "config", "--file", str(view / "config"), "core.editor", bed.program())
    assert await manager.status(bed.workspace) == before
    assert b"editor" not in (view / "config").read_bytes()
    os.mkfifo(view / "info" / "exclude.new")
    (view / "info" / "exclude.new").replace(view / "info" / "exclude")
    assert await manager.status(bed.workspace) == before
    remove_tree(view)
    assert await manager.status(bed.workspace) == before


async def test_without_a_state_folder_nothing_is_left_of_a_view(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    repo = bed.top / "other"
    plain_git(bed.top, "clone", "-q", str(bed.repo), str(repo))
    git = Git()
    assert (await git.run("branch", "--show-current", cwd=repo)).text == "main"
    assert [*scratch.iterdir()]
    assert [path.name for path in repo.iterdir() if path.name.startswith(".loop")] == []
    del git
    assert not [*scratch.iterdir()]


async def test_planted_programs_are_told_once_they_are_there(bed: Bed) -> None:
    manager = WorkspaceManager(bed.repo)
    assert await manager.planted(bed.workspace) == ()
    bed.config("core.fsmonitor")
    bed.program("pre-commit", bed.common / "hooks")
    [note] = await manager.planted(bed.workspace)
    assert "core.fsmonitor" in note
    assert "hooks/pre-commit" in note
    assert str(bed.common / "config") in note
    assert await WorkspaceManager(bed.repo).planted(bed.workspace) == (note,)
