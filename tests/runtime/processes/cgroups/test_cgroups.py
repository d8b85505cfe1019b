"""Control groups: where ours are, what they can do, and which were left behind."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.limits import NO_LIMITS, Limits
from runtime.process import TerminalManager
from runtime.processes.cgroups import groups, names, probe
from runtime.processes.cgroups.probe import Control
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

HYBRID = r"""
24 30 0:22 / /proc rw - proc proc rw
31 30 0:27 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw
32 31 0:28 / /sys/fs/cgroup/with\040space rw shared:10 - cgroup cgroup rw,memory
33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:11 - cgroup cgroup rw,cpu,cpuacct
34 31 0:30 / /sys/fs/cgroup/unified rw shared:12 - cgroup2 cgroup2 rw,nsdelegate
"""
MEMBER = "9:name=systemd:/\n4:memory:/a/b\n3:cpu,cpuacct:/\n0::/user.slice/x.scope\n"


def test_our_place_is_found_in_each_hierarchy_by_itself() -> None:
    assert probe.locate(HYBRID, MEMBER) == {
        "memory": probe.CgroupLocation(
            Path("/sys/fs/cgroup/with space/a/b"), Path("/sys/fs/cgroup/with space")
        ),
        "cpu": probe.CgroupLocation(
            Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup/cpu,cpuacct")
        ),
        "": probe.CgroupLocation(
            Path("/sys/fs/cgroup/unified/user.slice/x.scope"), Path("/sys/fs/cgroup/unified")
        ),
    }


@pytest.mark.parametrize(
    ("root", "member", "inside"),
    [
        ("/docker/abc", "/docker/abc", ""),
        ("/docker/abc", "/docker/abc/run", "run"),
        ("/docker/abc", "/docker/abcdef", "docker/abcdef"),
        ("/", "/../other", ""),
        ("/", "/", ""),
    ],
)
def test_a_mount_may_show_a_part_only(root: str, member: str, inside: str) -> None:
    line = f"34 31 0:30 {root} /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
    found = probe.locate(line, f"0::{member}\n")
    assert found[probe.UNIFIED].own == Path("/sys/fs/cgroup") / inside


def test_without_control_groups_nothing_can_be_done_and_the_reason_is_told() -> None:
    able = probe.probe({})
    assert {able.of(control).base for control in Control} == {None}
    assert {able.of(control).why_not for control in Control} == {"no control groups are mounted"}


def test_a_folder_that_is_no_control_group_can_do_nothing_and_is_left_as_it_was(
    tmp_path: Path,
) -> None:
    able = probe.probe({"pids": probe.CgroupLocation(tmp_path, tmp_path)})
    assert able.processes.base is None
    assert "pids.max cannot be set" in able.processes.why_not
    assert list(tmp_path.iterdir()) == []


def test_the_probe_leaves_no_group_behind() -> None:
    probe.probe(probe.standing())
    for place in probe.standing().values():
        assert not list(place.own.glob(f"loopwright-trial-*{os.getpid()}*"))


@pytest.fixture
def group() -> Iterator[groups.Group]:
    """Whatever group this machine gives; on some machines it has no folders."""
    able = probe.capabilities()
    limits = Limits(processes=50) if able.processes.base else NO_LIMITS
    group = groups.make(names.fresh(f"test {secrets.token_hex(4)}/x"), limits, able)
    yield group
    group.kill()
    assert group.remove()


def test_a_group_is_empty_until_one_joins_and_after_it_was_killed(group: groups.Group) -> None:
    assert group.empty()
    line = " && ".join([*(f"echo 0 > '{path}'" for path in group.joins), "echo up; sleep 60"])
    with subprocess.Popen(["/bin/sh", "-c", line], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert (process.pid in group.members()) == bool(group.folders)
        assert group.empty() == (not group.folders)
        group.kill()
        if not group.folders:
            process.kill()
    wait_until(group.empty)


def test_a_group_with_a_member_is_not_removed(group: groups.Group) -> None:
    line = " && ".join([*(f"echo 0 > '{path}'" for path in group.joins), "echo up; exec sleep 60"])
    with subprocess.Popen(["/bin/sh", "-c", line], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert group.remove() == (not group.folders)
        process.kill()
    wait_until(group.empty)


def test_what_members_made_below_is_removed_too(group: groups.Group) -> None:
    for folder in group.folders:
        (folder.path / "inner" / "most").mkdir(parents=True)
    assert group.remove()
    assert not any(folder.path.exists() for folder in group.folders)


def test_a_group_is_found_again_by_its_mark(group: groups.Group) -> None:
    every = names.left(probe.tops())
    mine = {
        mark: left
        for mark, left in every.items()
        if {each.folders[0].path for each in left} & {folder.path for folder in group.folders}
    }
    assert len(mine) == (1 if group.folders else 0)
    for mark, left in mine.items():
        assert names.left(probe.tops(), mark)[mark][0].folders == left[0].folders
        assert not any(names.is_orphaned(each) for each in left)


@pytest.mark.parametrize("mark", ["a", "../../x", "a.b.c", "ä b", "x" * 500, "x" * 499 + "y"])
def test_a_mark_of_any_form_makes_a_name_of_its_own(mark: str) -> None:
    name = names.fresh(mark)
    assert "/" not in name
    assert len(name.encode()) < 255
    assert names._written(mark) != names._written(mark + "z")


def test_an_empty_group_of_a_runner_that_is_gone_is_taken_away(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from runtime.processes.cgroups import groups, names, probe\n"
        "from runtime.limits import Limits, NO_LIMITS\n"
        "able = probe.capabilities()\n"
        "limits = Limits(processes=9) if able.processes.base else NO_LIMITS\n"
        "groups.make(names.fresh(sys.argv[1]), limits, able)\n"
    )
    mark = f"gone {secrets.token_hex(6)}"
    subprocess.run([sys.executable, "-c", program, mark], check=True)
    left = names.left(probe.tops(), mark)
    assert all(names.is_orphaned(group) for group in left.get(mark, []))
    assert bool(left) == bool(probe.capabilities().kill.base)
    TerminalManager(tmp_path).find_all_marked()
    assert names.left(probe.tops(), mark) == {}
