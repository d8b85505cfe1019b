"""Which checks count: those that the base requires, and what the settings say over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci.events import CheckState
from ci.forge.counting import counting
from ci.forge.merge_rules import Rules
from ci.forge.protocol import BranchRules
from ci.verdict import VerdictStatus, judge_checks
from tests.ci.forge.scripted_forge import BASE_SHA, check, scene_of, sha

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ci.forge.scripted_forge import Scene

RED_OPTIONAL = (check("unit"), check("codecov/patch", "failed", how="failure"))


def verdict(
    required: tuple[str, ...] = (), *, awaits: bool = True, **rules: Any
) -> tuple[VerdictStatus, str]:
    found = counting(
        RED_OPTIONAL, BranchRules(required_checks=required), Rules(**rules), awaits=awaits
    )
    judged = judge_checks(sha("1"), found)
    return judged.status, judged.summary


@pytest.mark.parametrize(
    ("required", "rules", "status"),
    [
        ((), {}, VerdictStatus.RED),
        (("unit",), {}, VerdictStatus.GREEN),
        (("un*",), {}, VerdictStatus.GREEN),
        (("codecov/*",), {}, VerdictStatus.RED),
        (("unit",), {"required_checks": ("*",)}, VerdictStatus.RED),
        (("unit", "codecov/patch"), {"ignore_checks": ("codecov/*",)}, VerdictStatus.GREEN),
        ((), {"ignore_checks": ("codecov/*",)}, VerdictStatus.GREEN),
        ((), {"ignore_checks": ("*",)}, VerdictStatus.NONE),
        (("unit", "e2e"), {}, VerdictStatus.PENDING),
        ((), {"required_checks": ("e2e",)}, VerdictStatus.PENDING),
        ((), {"required_checks": ("e2e [linux]",)}, VerdictStatus.PENDING),
        (("unit", "why?"), {}, VerdictStatus.PENDING),
        ((), {"ignore_checks": ("[a-z]odecov/patch", "codecov?patch")}, VerdictStatus.RED),
    ],
)
def test_what_counts_by_the_branch_and_by_the_settings(
    required: tuple[str, ...], rules: dict[str, Any], status: VerdictStatus
) -> None:
    assert verdict(required, **rules)[0] is status


def test_a_red_check_that_does_not_count_is_told() -> None:
    assert verdict(("unit",))[1] == "1 passed: unit; not required: codecov/patch (failure)"


def test_a_commit_without_a_pull_request_waits_for_no_check_that_has_not_begun() -> None:
    assert verdict(("unit", "e2e"), awaits=False)[0] is VerdictStatus.GREEN


async def test_an_optional_red_check_neither_wakes_nor_blocks(tmp_path: Path) -> None:
    async with scene_of(tmp_path, auto_merge=True) as scene:
        scene.forge.rules["main"] = BranchRules(required_checks=("unit",))
        scene.wait_for_pull(*RED_OPTIONAL)
        await scene.later(20)
        assert "not required: codecov/patch (failure)" in (await scene.stands())["text"]
        await scene.later(200)
        assert scene.told == ["pr_checks_passed", "pr_merged"]
        assert scene.forge.merged_with


async def test_who_is_woken_for_a_required_check_is_told_of_the_others(scene: Scene) -> None:
    scene.forge.rules["main"] = BranchRules(required_checks=("unit",))
    scene.wait_for_pull(check("unit", "failed"), check("lint", "failed", how="failure"))
    await scene.quiet()
    (event,) = scene.events
    assert event.type == "pr_checks_failed"
    assert "1 failed: unit; not required: lint (failure)." in event.summary
    assert [each.title for each in event.details] == ["unit"]


async def test_a_required_check_that_has_not_begun_is_waited_for_by_name(scene: Scene) -> None:
    scene.forge.rules["main"] = BranchRules(required_checks=("unit", "e2e"))
    scene.wait_for_pull(check("unit"))
    await scene.later(200)
    assert scene.told == []
    assert "1 pending: e2e" in (await scene.stands())["text"]
    scene.forge.by_sha[sha("1")] = (check("unit"), check("e2e"))
    await scene.later(150)
    assert scene.told == ["pr_checks_passed"]


async def test_what_else_an_optional_check_says_is_no_news(scene: Scene) -> None:
    scene.forge.rules["main"] = BranchRules(required_checks=("unit",))
    scene.wait_for_pull(check("unit"), check("lint", "pending"))
    await scene.quiet()
    scene.forge.by_sha[sha("1")] = (check("unit"), check("lint", "failed", ref="2"))
    scene.forge.change()
    await scene.later(400)
    assert scene.told == ["pr_checks_passed"]


async def test_the_rules_of_a_branch_are_asked_for_now_and_then(scene: Scene) -> None:
    scene.wait_for_pull(check("unit", "pending"))
    await scene.later(500)
    assert scene.forge.asked["branch_rules"] == 1
    await scene.later(300)
    assert scene.forge.asked["branch_rules"] == 2


# --- no check at all ------------------------------------------------------------------------------


async def test_none_is_enough_where_nothing_ever_checks_the_base(tmp_path: Path) -> None:
    async with scene_of(tmp_path, require_ci="auto", auto_merge=True) as scene:
        scene.wait_for_pull()
        await scene.later(100)
        assert scene.told == []
        await scene.later(100)
        assert scene.told == ["pr_checks_passed", "pr_merged"]
        assert "require_ci = auto" in scene.events[0].summary


@pytest.mark.parametrize(
    "facts",
    [{"mergeable": None}, {"hindrance": "blocked"}, {"checked": True}],
    ids=["not-computed", "blocked", "base-is-checked"],
)
async def test_none_is_not_enough_where_anything_speaks_against_it(
    tmp_path: Path, facts: dict[str, Any]
) -> None:
    async with scene_of(tmp_path, require_ci="auto", auto_merge=True) as scene:
        if facts.pop("checked", False):
            scene.forge.by_sha[BASE_SHA] = (check("unit", CheckState.FAILED),)
        scene.wait_for_pull(**facts)
        await scene.later(400)
        assert scene.told == []
        assert not (await scene.provider.merge(7)).merged


async def test_whether_a_base_is_checked_is_asked_for_now_and_then_whoever_waits(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path, require_ci="auto") as scene:
        for number in range(1, 26):
            head = f"{number:040x}"
            scene.forge.open(number, head=head, branch=f"agent/{number}")
            scene.watch(key=f"a{number}", branch=f"agent/{number}", sha=head, number=number)
        await scene.later(3600)
        assert scene.told.count("pr_checks_passed") == 25
        assert 1 <= scene.forge.asked["is_checked"] <= 6
