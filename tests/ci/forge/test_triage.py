"""What is found out about red checks before anybody is woken for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, UnreachableError
from ci.forge.merge_rules import Rules
from tests.ci.forge.scripted_forge import BASE_SHA, check, sha

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci.events import Check
    from tests.ci.forge.scripted_forge import Scene


async def test_a_check_that_is_red_on_the_base_too_is_said_to_be(scene: Scene) -> None:
    scene.forge.by_sha[sha("1")] = (check("unit", "failed"), check("lint", "failed"))
    scene.forge.by_sha[BASE_SHA] = (check("unit", "failed"),)
    scene.watch(number=None)
    await scene.quiet()
    assert "On main (bbbbbbbbbbbb) the same checks are red: unit" in scene.events[0].summary


async def test_nobody_is_woken_for_what_is_red_on_the_base_if_that_is_wanted(
    scene: Scene,
) -> None:
    scene.rules = Rules(wake_on_base_red=False)
    scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
    scene.forge.by_sha[BASE_SHA] = (check("unit", "failed"),)
    scene.watch(number=None)
    await scene.later(50)
    assert scene.told == []
    assert "Nobody is woken" in (await scene.stands())["text"]
    scene.forge.by_sha[BASE_SHA] = (check("unit"),)
    await scene.later(800)
    assert scene.told == ["build_failure"]


async def test_failed_checks_run_once_more_before_anybody_is_woken(scene: Scene) -> None:
    scene.rules = Rules(rerun_red=True)
    scene.wait_for_checks(check("unit", "failed"), check("lint"))
    await scene.later(60)
    assert scene.forge.reruns == [("unit",)]
    assert scene.told == []
    scene.forge.by_sha[sha("1")] = (check("unit", ref="unit-2"), check("lint"))
    await scene.later(800)
    assert scene.told == ["build_success"]
    assert "red first and passed" in scene.events[0].summary
    assert scene.forge.reruns == [("unit",)]


async def test_what_fails_twice_is_red(scene: Scene) -> None:
    scene.rules = Rules(rerun_red=True)
    scene.wait_for_checks(check("unit", "failed"))
    await scene.quiet()
    scene.forge.by_sha[sha("1")] = (check("unit", "failed", ref="unit-2"),)
    await scene.later(800)
    assert scene.told == ["build_failure"]
    assert "failed again" in scene.events[0].summary


async def test_a_check_that_is_known_as_flaky_runs_once_more_before_anybody_is_woken(
    scene: Scene,
) -> None:
    scene.wait_for_checks(check("unit", "failed"))
    await scene.quiet()
    scene.forge.by_sha[sha("1")] = (check("unit", ref="unit-2"),)
    await scene.later(700)
    assert scene.told == ["build_failure", "build_success"]
    assert scene.forge.reruns == []
    await scene.restart()
    # The next commit, on which it fails as well.
    scene.forge.by_sha[sha("2")] = (check("unit", "failed"),)
    scene.watch(number=None, sha=sha("2"))
    await scene.later(60)
    assert scene.forge.reruns == [("unit",)]
    assert "fail and then pass on the same commit: unit (1x)" in (await scene.stands())["text"]
    scene.forge.by_sha[sha("2")] = (check("unit", "failed", ref="unit-2"),)
    await scene.later(300)
    assert scene.told == ["build_failure", "build_success", "build_failure"]
    assert "Known to fail and then pass" in scene.events[-1].summary
    assert scene.forge.reruns == [("unit",)]


async def test_what_fails_beside_a_flaky_check_wakes_at_once(scene: Scene) -> None:
    scene.wait_for_checks(check("unit", "failed"))
    await scene.quiet()
    scene.forge.by_sha[sha("1")] = (check("unit", ref="unit-2"),)
    await scene.later(700)
    scene.forge.by_sha[sha("2")] = (check("unit", "failed"), check("lint", "failed"))
    scene.watch(number=None, sha=sha("2"))
    await scene.quiet()
    assert scene.told[-1] == "build_failure"
    assert scene.forge.reruns == []


async def test_a_forge_that_runs_nothing_again_is_believed_at_once(scene: Scene) -> None:
    scene.rules = Rules(rerun_red=True)
    scene.forge.may_rerun = False
    scene.wait_for_checks(check("unit", "failed"))
    await scene.quiet()
    assert scene.told == ["build_failure"]


async def test_a_rerun_whose_answer_is_lost_is_asked_for_once(scene: Scene) -> None:
    scene.rules = Rules(rerun_red=True)
    rerun, lost = scene.forge.rerun, UnreachableError("no answer")

    async def answers_nothing(sha: str, checks: Sequence[Check]) -> bool:
        await rerun(sha, checks)
        raise lost

    scene.forge.rerun = answers_nothing  # type: ignore[method-assign]  # as a proxy that gives up
    scene.wait_for_checks(check("unit", "failed"))
    await scene.later(60)
    await scene.restart()
    scene.watch(number=None)
    await scene.later(60)
    assert scene.forge.reruns == [("unit",)]
    scene.forge.by_sha[sha("1")] = (check("unit", ref="unit-2"),)
    await scene.later(200)
    assert scene.told == ["build_success"]


async def test_a_rerun_that_the_forge_refuses_is_not_said_to_have_failed_again(
    scene: Scene,
) -> None:
    scene.rules = Rules(rerun_red=True)

    async def refuses(sha: str, checks: Sequence[Check]) -> bool:
        raise ForbiddenError(f"{sha} {len(checks)}: not with this token")

    scene.forge.rerun = refuses  # type: ignore[method-assign]  # as with a token that only reads
    scene.wait_for_checks(check("unit", "failed"))
    await scene.later(60)
    assert scene.told == ["build_failure"]
    assert "rerun" not in scene.events[0].summary


async def test_a_check_that_does_not_count_is_no_reason_to_stop_waiting_for_the_first(
    scene: Scene,
) -> None:
    scene.wait_for_checks(check("preview", counts=False))
    await scene.later(60)
    scene.forge.by_sha[sha("1")] = (check("preview", counts=False), check("unit", "failed"))
    await scene.later(60)
    assert scene.told == ["build_failure"]
