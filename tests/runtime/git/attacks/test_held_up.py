"""What an agent puts in the place of a file or folder neither holds saving up nor leads it away."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.branches import BranchManager
from runtime.errors import RuntimeFault
from runtime.workspace import WorkspaceManager
from runtime.workspaces.safe_copy import copy_out
from tests.runtime.git.attacks.bed import Bed, new_bed, plain_git

EXCHANGE = """
import ctypes, sys
libc = ctypes.CDLL(None)
pairs = [(a.encode(), b.encode()) for a, b in zip(sys.argv[1::2], sys.argv[2::2])]
print("ready", flush=True)
while True:
    for a, b in pairs:
        if sys.platform == "darwin":
            libc.renamex_np(a, b, 2)
        else:
            libc.renameat2(-100, a, -100, b, 2)
"""
PIPES = (
    "work/.gitignore", "work/.gitattributes", "own/index", "own/HEAD", "common/refs/heads/agent/a",
    "common/packed-refs", "common/objects/info/alternates",
)  # fmt: skip


@pytest.fixture
async def bed(tmp_path: Path, template: Path) -> Bed:
    return await new_bed(tmp_path / "bed", template)


def _place(bed: Bed, said: str) -> Path:
    top, _, rest = said.partition("/")
    return {"work": bed.work, "own": bed.own, "common": bed.common}[top] / rest


@pytest.mark.parametrize("said", PIPES)
async def test_a_pipe_where_git_reads_a_file_is_named_at_once(said: str, bed: Bed) -> None:
    pipe = _place(bed, said)
    pipe.unlink(missing_ok=True)
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    bed.dirty()
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(  # noqa: ASYNC221  # shows that git waits for ever
            ("git", "status"),
            cwd=bed.work,
            env={**os.environ, "GIT_DIR": str(bed.own), "GIT_WORK_TREE": str(bed.work)},
            capture_output=True,
            check=False,
            timeout=0.5,
        )
    manager = WorkspaceManager(bed.repo)
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeFault, match=f"{re.escape(str(pipe))}.*remove it"):
            await manager.status(bed.workspace)
        with pytest.raises(RuntimeFault, match=f"{re.escape(str(pipe))}.*remove it"):
            await manager.save_dirty(bed.workspace, 1, reason="stopped")


async def test_a_git_that_waits_at_a_pipe_continues_and_the_rules_are_back(bed: Bed) -> None:
    manager = WorkspaceManager(bed.repo)
    rules = bed.common / "info" / "exclude"
    rules.write_text("secret.txt\n")
    await manager.status(bed.workspace)
    rules.unlink()
    await manager.status(bed.workspace)
    os.mkfifo(rules)
    with subprocess.Popen(["cat", str(rules)], stdout=subprocess.DEVNULL) as waiting:  # noqa: ASYNC220  # as agents start it
        stat = Path(f"/proc/{waiting.pid}/stat").read_text
        async with asyncio.timeout(10):
            while "(cat) S" not in stat():  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.01)
        await manager.status(bed.workspace)
        try:
            assert await asyncio.to_thread(waiting.wait, 10) == 0
        finally:
            waiting.kill()
    assert rules.read_text() == "secret.txt\n"


@pytest.mark.parametrize("name", ["exclude", "attributes"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "endless", "huge"])
async def test_rules_of_the_repository_that_are_no_file_hold_nobody_up(
    name: str, kind: str, bed: Bed
) -> None:
    manager = WorkspaceManager(bed.repo)
    rules = bed.common / "info" / name
    rules.parent.mkdir(exist_ok=True)
    rules.write_text("/local\n" if name == "exclude" else "*.bin -text\n")
    (bed.work / "local").touch()
    before = await manager.status(bed.workspace)
    rules.unlink()
    match kind:
        case "pipe":
            os.mkfifo(rules)
        case "folder":
            rules.mkdir()
        case "endless":
            rules.symlink_to("/dev/zero")
        case _:
            rules.touch()
            os.truncate(rules, 5 << 30)
    bed.dirty()
    async with asyncio.timeout(10):
        after = await manager.status(bed.workspace)
        assert set(before.dirty) <= set(after.dirty)
        assert await manager.save_dirty(bed.workspace, 1, reason="stopped")
        await WorkspaceManager(bed.repo).prepare("b")
        if kind == "pipe":
            plain_git(bed.repo, "status")  # an agent's own git, too


async def test_a_pipe_in_a_deeper_folder_is_named_soon(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bed.work / "deeper").mkdir()
    os.mkfifo(bed.work / "deeper" / ".gitignore")
    (bed.work / "deeper" / "file").touch()
    monkeypatch.setattr("runtime.git.git.LONG", 0.1)
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeFault, match=r"deeper/\.gitignore is not a regular file"):
            await WorkspaceManager(bed.repo).save_dirty(bed.workspace, 1, reason="stopped")


async def test_objects_are_not_written_through_a_link_to_another_place(bed: Bed) -> None:
    away = bed.top / "away"
    objects = bed.common / "objects"
    for number in range(256):
        if not (objects / f"{number:02x}").exists():
            (away / f"{number:02x}").mkdir(parents=True)
            (objects / f"{number:02x}").symlink_to(away / f"{number:02x}")

    def written() -> list[Path]:
        return [path for path in away.rglob("*") if path.is_file()]

    for number in range(20):
        plain_git(bed.repo, "hash-object", "-w", "--stdin", stdin=b"%d" % number)
    assert written(), "the attack does not work at all"
    for path in written():
        path.unlink()
    bed.dirty()
    with pytest.raises(RuntimeFault, match=r"objects/.. is a symbolic link"):
        await WorkspaceManager(bed.repo).save_dirty(bed.workspace, 1, reason="stopped")
    with pytest.raises(RuntimeFault, match=r"objects/.. is a symbolic link"):
        await BranchManager(bed.repo).join(("agent/a", "side"), message="Both")
    assert written() == []


async def test_a_repository_inside_that_becomes_a_link_leads_saving_nowhere(bed: Bed) -> None:
    outside = bed.top / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret words\n")
    secret = plain_git(bed.top, "hash-object", str(outside / "secret"))
    pairs: list[str] = []
    for number in range(20):
        inner, link = bed.work / f"inner{number}", bed.work.parent / f"link{number}"
        plain_git(bed.work, "init", "-q", "--template=", str(inner))
        (inner / "own.txt").write_text(f"own {number}\n")
        link.symlink_to(outside)
        pairs += [str(inner), str(link)]
    careless = {
        "GIT_DIR": str(bed.own), "GIT_WORK_TREE": pairs[1],
        "GIT_INDEX_FILE": str(bed.top / "index"),
    }  # fmt: skip
    plain_git(bed.work, "add", "--all", "--dry-run", ".", env=careless)
    listed = plain_git(Path(pairs[1]), "ls-files", "--others", env=careless)
    assert "secret" in listed.split(), "the attack does not work at all"

    manager = WorkspaceManager(bed.repo)
    command = (sys.executable, "-c", EXCHANGE, *pairs)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapping:  # noqa: ASYNC220  # to swap
        try:
            assert swapping.stdout is not None
            swapping.stdout.readline()
            for attempt in range(4):
                with suppress(RuntimeFault):  # to give up is no harm
                    await manager.save_dirty(bed.workspace, attempt, reason="stopped")
        finally:
            swapping.kill()
    assert not (bed.common / "objects" / secret[:2] / secret[2:]).exists()


async def test_what_is_saved_is_what_adding_all_would_add(bed: Bed) -> None:
    work = bed.work
    names = ("gone", "link", "file", "folder/a", "folder/b", "tool", "kept/x", "crlf.txt", "staged")
    for name in names:
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(f"{name}\n")
    (work / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (work / ".gitignore").write_text("ignored/\n")
    bed.git("add", "--all")
    bed.git("commit", "-qm", "Everything")
    (work / "crlf.txt").write_bytes(b"changed\r\n")
    (work / "gone").unlink()
    (work / "link").unlink()
    (work / "link").symlink_to("/etc")
    (work / "file").unlink()
    (work / "file").mkdir()
    (work / "file" / "inside").write_text("inside\n")
    (work / "folder").rename(work / "moved")
    (work / "folder").symlink_to("moved")
    (work / "tool").chmod(0o755)
    (work / "staged").write_text("staged\n")
    bed.git("add", "staged")
    (work / "staged").unlink()
    (work / "intended").write_text("intended\n")
    bed.git("add", "--intent-to-add", "intended")
    (work / "ignored").mkdir()
    (work / "ignored" / "x").touch()
    (work / "öd [*]\n").write_text("odd\n")
    saved = await WorkspaceManager(bed.repo).save_dirty(bed.workspace, 1, reason="stopped")
    assert saved is not None
    assert saved.problems == ""
    bed.git("add", "--all")
    bed.git("add", "--force", "ignored")
    assert plain_git(bed.repo, "rev-parse", f"{saved.ref}^{{tree}}") == bed.git("write-tree")


def test_a_copy_holds_what_is_below_the_folder_and_nothing_behind_links(tmp_path: Path) -> None:
    top, outside, target = tmp_path / "top", tmp_path / "outside", tmp_path / "target"
    (top / "folder").mkdir(parents=True)
    (top / "folder" / "tool").write_text("run\n")
    (top / "folder" / "tool").chmod(0o755)
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    (top / "link").symlink_to(outside)
    os.mkfifo(top / "pipe")
    target.mkdir()
    names = ("folder/tool", "link", "link/secret", "pipe", "missing")
    left = copy_out(top, names, target)
    assert left.gone == {"link/secret", "missing"}
    assert left.problems == {"pipe": "it is not a regular file"}
    assert (target / "link").readlink() == outside
    assert os.access(target / "folder" / "tool", os.X_OK)
    assert sorted(path.name for path in target.rglob("*")) == ["folder", "link", "tool"]


def test_a_copied_link_is_no_way_for_later_files(tmp_path: Path) -> None:
    top, outside, target = tmp_path / "top", tmp_path / "outside", tmp_path / "target"
    for folder in (top, outside, target):
        folder.mkdir()
    (top / "x").symlink_to(outside)
    assert copy_out(top, ("x",), target).gone == frozenset()
    (top / "x").unlink()
    (top / "x").mkdir()
    (top / "x" / "planted").write_text("planted\n")
    assert copy_out(top, ("x/planted",), target).gone == {"x/planted"}
    assert list(outside.iterdir()) == []
