"""Machines, networks and servers that fail: no work is lost, and no two agents live at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.lifecycle.world import git
from tests.orchestrator.engines.temporal.faults.conftest import LEASE
from tests.orchestrator.engines.temporal.faults.fleet_roles import AGENT
from tests.orchestrator.engines.temporal.faults.story import Story, alive, fleet_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.engines.temporal.faults.story import RemoteFleet

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("fleet")]
BOOKS_WITHIN = 30.0
"""Seconds after its return in which the coordinator has written all that happened meanwhile."""


def test_a_killed_worker_has_no_agent_and_another_goes_on(fleet: RemoteFleet, story: Story) -> None:
    old = story.hangs()
    fleet("kill", old.worker)
    story.wait(lambda: not alive(old.pid))
    assert story.next_after(old).worker != old.worker
    story.assert_right()


def test_of_a_worker_that_wakes_after_the_takeover_nothing_is_accepted(
    fleet: RemoteFleet, story: Story
) -> None:
    old = story.hangs()
    fleet("kill", old.worker, "SIGSTOP")
    new = story.next_after(old)
    assert not alive(old.pid)
    fleet("kill", old.worker, "SIGCONT")
    assert new.worker != old.worker
    story.assert_right()
    branch = f"agent/agent-{story.task}"
    files = git(fleet.folder / "bare.git", "ls-tree", "--name-only", branch).split()
    assert "draft" not in files


def test_a_worker_that_wakes_before_the_server_misses_it_hands_on(
    fleet: RemoteFleet, story: Story
) -> None:
    old = story.hangs()
    fleet("kill", old.worker, "SIGSTOP")
    story.wait(lambda: not alive(old.pid))
    fleet("kill", old.worker, "SIGCONT")
    story.next_after(old)
    story.assert_right()


def test_a_worker_that_is_asked_to_end_hands_on_what_it_saved(
    fleet: RemoteFleet, story: Story
) -> None:
    old = story.hangs()
    fleet("kill", old.worker, "SIGTERM")
    assert story.next_after(old).worker != old.worker
    assert not alive(old.pid)
    story.assert_right()
    saved = f"refs/loopwright/saved/agent-{story.task}/2:draft"
    assert git(fleet.folder / "bare.git", "show", saved) == "half done"


def test_a_worker_killed_with_its_watchdogs_is_no_end_of_the_work(
    fleet: RemoteFleet, story: Story
) -> None:
    old = story.hangs()
    fleet("kill_all_of", old.worker)
    story.next_after(old)
    assert not alive(old.pid)
    story.assert_right()


def test_killed_watchdogs_end_no_agent_and_their_worker_is_watched_again(
    fleet: RemoteFleet, story: Story
) -> None:
    old = story.hangs()
    fleet("kill_watchdogs", old.worker)
    fleet("watched", old.worker)
    assert alive(old.pid)
    fleet("kill", old.worker)
    story.wait(lambda: not alive(old.pid))
    story.assert_right()


def test_agents_outlive_the_coordinator_which_then_has_all_that_happened(
    fleet: RemoteFleet, story: Story
) -> None:
    old = story.hangs()
    fleet("kill", "coordinator")
    (story.folder / "fail").touch()
    story.wait(lambda: not alive(old.pid))
    fleet("begin")
    back = time.monotonic()
    story.begin()
    story.assert_right(retries=2, interrupted=False)
    assert time.monotonic() - back < BOOKS_WITHIN


def test_agents_outlive_a_server_that_is_away_for_less_than_the_lease(tmp_path: Path) -> None:
    with fleet_in(tmp_path, 30.0) as fleet:
        story = Story(fleet, "T001")
        story.begin()
        old = story.hangs()
        fleet("kill", "server")
        story.pause(1.0)
        fleet("server")
        assert alive(old.pid)
        (story.folder / "fail").touch()
        story.assert_right(retries=2, interrupted=False)


def test_an_order_lost_on_its_way_and_a_fact_told_twice_are_taken_once(tmp_path: Path) -> None:
    with fleet_in(tmp_path, 30.0) as fleet:
        story = Story(fleet, "T001")
        story.begin()
        old = story.hangs()
        fleet("cut", old.worker, "back")  # what it tells arrives, and it hears of nothing
        captured = story.reached_often("Capturing")
        (story.folder / "fail").touch()
        story.wait(lambda: story.reached_often("Capturing") > captured)
        story.pause(1.0)
        fleet("mend", old.worker)
        story.assert_right(retries=2, interrupted=False)
        assert story.reached_often("Capturing") == len(story.starts())


def test_agents_end_by_themselves_while_the_server_is_away_for_more_than_the_lease(
    fleet: RemoteFleet, story: Story
) -> None:
    old = story.hangs()
    fleet("kill", "server")
    story.wait(lambda: not alive(old.pid))
    story.pause(LEASE)
    fleet("server")
    story.assert_right()


@pytest.mark.parametrize("ways", ["there+back", "there", "back"])
def test_a_worker_that_is_cut_off_ends_its_agent_before_the_next_begins(
    fleet: RemoteFleet, story: Story, ways: str
) -> None:
    old = story.hangs()
    fleet("cut", old.worker, ways)
    story.wait(lambda: not alive(old.pid))
    new = story.next_after(old)
    fleet("mend", old.worker)
    assert new.worker != old.worker
    story.assert_right()


def test_a_worker_that_is_back_after_its_own_end_but_within_the_lease_hands_on(
    fleet: RemoteFleet, story: Story
) -> None:
    old = story.hangs()
    fleet("cut", old.worker)
    story.wait(lambda: not alive(old.pid))
    fleet("mend", old.worker)
    story.next_after(old)
    story.assert_right()


def test_a_coordinator_that_is_cut_off_ends_no_agent(fleet: RemoteFleet, story: Story) -> None:
    old = story.hangs()
    fleet("cut", "coordinator")
    (story.folder / "fail").touch()
    story.wait(lambda: not alive(old.pid))
    fleet("mend", "coordinator")
    story.assert_right(retries=2, interrupted=False)


def test_a_remote_that_cannot_be_reached_is_waited_for_and_costs_no_retry(
    fleet: RemoteFleet, story: Story
) -> None:
    bare = fleet.folder / "bare.git"
    old = story.hangs()
    away = bare.rename(fleet.folder / "away.git")
    fleet("kill", old.worker)
    story.wait(lambda: not alive(old.pid))
    fleet("begin")
    said = fleet.folder / "coordinator.out"
    known = len(said.read_text())
    story.wait(lambda: f"state {story.task}" in said.read_text()[known:])
    story.pause(LEASE)
    away.rename(bare)
    story.assert_right()


def test_a_worker_whose_clock_is_five_minutes_off(fleet: RemoteFleet, story: Story) -> None:
    old = story.hangs()
    other = next(each for each in "ab" if each != old.worker)
    fleet("kill", other)
    fleet("launch", other, "300")
    fleet("up", other)
    fleet("kill", old.worker)
    assert story.next_after(old).worker == other
    story.assert_right()
    fleet("kill", other)


def test_two_workers_of_a_host_end_only_what_is_their_own(fleet: RemoteFleet, story: Story) -> None:
    other = Story(fleet, f"{story.task}b")
    other.begin()
    one, two = story.hangs(), other.hangs()
    if one.worker == two.worker:
        fleet("kill", next(each for each in "ab" if each != one.worker))
        fleet("begin")
        assert alive(one.pid)
        assert alive(two.pid)
        fleet("kill", one.worker)
    else:
        fleet("kill", one.worker)
        fleet("begin")
        assert alive(two.pid)
        fleet("kill", two.worker)
    story.assert_right()
    other.assert_right()


def test_a_worker_without_the_agents_program_leaves_the_work_to_one_that_has_it(
    fleet: RemoteFleet,
) -> None:
    programs = fleet.folder / "programs"
    programs.mkdir()
    (programs / "the-agent").write_text(f'#!/bin/sh\nexec {" ".join(AGENT)} "$@"\n')
    (programs / "the-agent").chmod(0o755)
    fleet("begin")
    fleet("kill", "b")
    story = Story(fleet, "program", hangs=False)
    story.begin("the-agent")
    story.wait(lambda: story.reached("BackingOff"))
    fleet("launch", "b", "0", str(programs))
    fleet("up", "b")
    story.assert_right(interrupted=False)
    assert {each.worker for each in story.starts()} == {"b"}
    fleet("kill", "b")
