"""A base that moves has every wait for a pull request into it looked at anew, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.errors import ForgeError, GarbledError, UnreachableError
from ci.forge.merge_rules import Rules
from ci.webhook_delivery import Hint
from tests.ci.forge.scripted_forge import check, sha

if TYPE_CHECKING:
    from tests.ci.forge.scripted_forge import Scene

SOON = 10.0
"""Seconds within which each loop knows of a merge."""


async def four(scene: Scene, *, base: str = "main") -> None:
    """Have four loops wait for pull requests into one base, for so long that looks are rare."""
    for number in range(1, 5):
        head = sha(str(number))
        scene.forge.by_sha[head] = (check("unit"),)
        scene.forge.open(number, head=head, branch=f"agent/{number}", base=base)
        scene.watch(key=f"agent-{number}", branch=f"agent/{number}", sha=head, number=number)
    await scene.later(400)


def moves(scene: Scene, *conflicting: int, base: str = "main") -> None:
    """Move the base, which the list of pull requests does not show."""
    scene.forge.heads[base] = sha("e")
    for number in conflicting:
        scene.forge.change(number, mergeable=False, updated_at=1.0)


def conflicts(scene: Scene) -> list[int | None]:
    return [each.pr_number for each in scene.events if each.type == "pr_conflict"]


async def test_a_hint_about_a_base_has_all_that_go_into_it_looked_at(scene: Scene) -> None:
    await four(scene)
    moves(scene, 2, 4)
    woken = await scene.provider.take(Hint(branch="main", sha=sha("e")))
    assert woken == ("agent-1", "agent-2", "agent-3", "agent-4")
    await scene.later(SOON)
    assert conflicts(scene) == [2, 4]


async def test_a_hint_about_another_branch_costs_nothing(scene: Scene) -> None:
    await four(scene)
    asked = scene.forge.asked["pull"]
    assert await scene.provider.take(Hint(branch="develop", sha=sha("e"))) == ()
    assert scene.forge.asked["pull"] == asked


async def test_our_own_merge_of_one_tells_the_others_within_seconds(scene: Scene) -> None:
    await four(scene)
    moves(scene, 2, 3, 4)
    scene.remote.heads["agent/1"] = sha("1")
    assert (await scene.provider.merge(1)).merged
    await scene.later(SOON)
    assert conflicts(scene) == [2, 3, 4]


async def test_the_merge_of_one_that_nobody_waits_for_any_more_tells_the_others(
    scene: Scene,
) -> None:
    await four(scene)
    scene.forge.by_sha[sha("9")] = (check("unit"),)
    scene.forge.open(9, head=sha("9"), branch="done/9")
    moves(scene, 2)
    assert (await scene.provider.merge(9)).merged
    await scene.later(SOON)
    assert conflicts(scene) == [2]


async def test_a_merge_unasked_tells_the_others_within_seconds(scene: Scene) -> None:
    await four(scene)
    scene.rules = Rules(auto_merge=True)
    merge = scene.forge.merge

    async def merges(pull: object, **more: object) -> object:
        moves(scene, 2, 3, 4)
        return await merge(pull, **more)  # type: ignore[arg-type]  # as it came

    scene.forge.merge = merges  # type: ignore[method-assign,assignment]  # it moves the base, too
    await scene.provider.take(Hint(numbers=(1,)))
    await scene.later(SOON)
    assert [number for number, _, _ in scene.forge.merged_with] == [1]
    assert conflicts(scene) == [2, 3, 4]


async def test_a_base_that_somebody_pushes_to_is_noticed_by_polling(scene: Scene) -> None:
    await four(scene)
    moves(scene, 3)
    await scene.later(150)
    assert conflicts(scene) == [3]


async def test_a_base_that_rests_is_no_reason_to_look_at_pull_requests(scene: Scene) -> None:
    await four(scene)
    asked = scene.forge.asked["pull"]
    await scene.later(100)
    assert scene.forge.asked["pull"] == asked


async def test_a_moved_base_has_neither_checks_nor_reviews_asked_for(scene: Scene) -> None:
    await four(scene)
    before = dict(scene.forge.asked)
    moves(scene)
    await scene.provider.take(Hint(branch="main"))
    await scene.later(SOON)
    assert scene.forge.asked["pull"] == before["pull"] + 4
    assert scene.forge.asked["checks"] == before["checks"]
    assert scene.forge.asked["reviews"] == before["reviews"]


async def test_what_the_forge_still_computes_is_asked_for_again_within_seconds(
    scene: Scene,
) -> None:
    await four(scene)
    scene.forge.heads["main"] = sha("e")
    scene.forge.change(2, mergeable=None, updated_at=1.0)
    await scene.provider.take(Hint(branch="main"))
    await scene.quiet()
    scene.forge.change(2, mergeable=False, updated_at=1.0)
    await scene.later(SOON)
    assert conflicts(scene) == [2]


async def test_looks_at_once_do_not_use_up_those_that_follow_soon(scene: Scene) -> None:
    await four(scene)
    scene.forge.heads["main"] = sha("e")
    scene.forge.change(2, mergeable=None, updated_at=1.0)
    for _ in range(4):  # a merge, its webhook, and those of the checks of its base
        await scene.provider.take(Hint(branch="main"))
    await scene.later(4)
    scene.forge.change(2, mergeable=False, updated_at=1.0)
    await scene.later(SOON - 4)
    assert conflicts(scene) == [2]


async def test_a_forge_that_computes_for_long_is_asked_on_though_less_often(scene: Scene) -> None:
    await four(scene)
    moves(scene)
    scene.forge.change(2, mergeable=None, updated_at=1.0)
    await scene.provider.take(Hint(branch="main"))
    await scene.later(35)
    asked = scene.forge.asked["pull"]
    scene.forge.change(2, mergeable=False, updated_at=1.0)
    await scene.later(100)
    assert conflicts(scene) == [2]
    assert scene.forge.asked["pull"] <= asked + 2


async def test_a_conflict_that_a_merge_unasked_meets_is_told_at_once(scene: Scene) -> None:
    scene.wait_for_pull(check("unit"))
    await scene.later(400)
    scene.rules = Rules(auto_merge=True)
    # Only who asks for it by itself is told, as right before a merge.
    scene.forge.change(mergeable=False, updated_at=1.0)
    await scene.later(130)
    assert scene.forge.merged_with == []
    await scene.later(SOON)
    assert conflicts(scene) == [7]


async def test_a_conflict_is_told_once_however_often_the_base_moves(scene: Scene) -> None:
    await four(scene)
    moves(scene, 2)
    for letter in "efab":
        scene.forge.heads["main"] = sha(letter)
        scene.forge.change(2, base_sha=sha(letter), updated_at=1.0)
        await scene.provider.take(Hint(branch="main", sha=sha(letter)))
        await scene.later(SOON)
    assert conflicts(scene) == [2]


async def test_a_base_that_moves_while_it_cannot_be_asked_is_noticed_afterwards(
    scene: Scene,
) -> None:
    await four(scene)
    await scene.provider.take(Hint(numbers=(1, 2, 3, 4)))
    head = scene.forge.head

    async def garbled(branch: str) -> str | None:
        raise GarbledError(f"{branch}: no JSON")

    scene.forge.head = garbled  # type: ignore[method-assign]  # for a while
    await scene.later(150)
    moves(scene, 3)
    scene.forge.head = head  # type: ignore[method-assign]  # as before
    await scene.later(150)
    assert conflicts(scene) == [3]


async def test_the_checks_of_a_base_are_no_reason_to_look_at_its_pull_requests_again(
    scene: Scene,
) -> None:
    await four(scene)
    moves(scene, 3)
    await scene.provider.take(Hint(branch="main", sha=sha("e")))
    await scene.later(SOON)
    asked = scene.forge.asked["pull"]
    for _ in range(20):
        assert await scene.provider.take(Hint(branch="main", sha=sha("e"))) == ()
    assert scene.forge.asked["pull"] == asked
    assert conflicts(scene) == [3]


async def test_a_push_to_a_base_that_could_not_be_looked_into_is_looked_into_again(
    scene: Scene,
) -> None:
    await four(scene)
    moves(scene, 3)
    scene.forge.failing = UnreachableError("down")
    with pytest.raises(ForgeError, match="down"):
        await scene.provider.take(Hint(branch="main", sha=sha("e")))
    scene.forge.failing = None
    assert len(await scene.provider.take(Hint(branch="main", sha=sha("e")))) == 4
    await scene.later(SOON)
    assert conflicts(scene) == [3]
