"""What reviewers say: told once, with who said it, and only as far as they are heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.forge.merge_rules import Rules
from ci.forge.protocol import Reviews
from ci.forge.reviewers import is_heard
from ci.interface import PullRequestState
from tests.ci.forge.scripted_forge import remark, scene_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ci.forge.scripted_forge import Scene


async def test_a_review_that_wants_changes_is_told_once_with_every_remark(scene: Scene) -> None:
    scene.forge.open()
    scene.forge.said[7] = Reviews(
        changes_wanted_by=("ada",),
        remarks=(
            remark("1", "please mend", wants_changes=True),
            remark("2", "off by one", path="app.py", line=12, wants_changes=True),
            remark("3", "buy now", author="stranger", trusted=False, wants_changes=True),
        ),
    )
    scene.watch()
    await scene.later(500)
    await scene.restart()
    scene.watch()
    await scene.later(500)
    (event,) = [each for each in scene.events if each.type == "pr_changes_requested"]
    assert [(each.title, each.text) for each in event.details] == [
        ("by ada", "please mend"),
        ("app.py:12 by ada", "off by one"),
    ]


@pytest.mark.parametrize(("ends", "known"), [(False, True), (True, False)])
async def test_what_was_told_is_known_as_long_as_the_pull_request_is_open_and_a_month_more(
    scene: Scene, *, ends: bool, known: bool
) -> None:
    """A loop may wait, or its runner rest, for longer than anything changes."""
    scene.forge.open()
    scene.watch()
    said = [remark(key, f"mend {key}", wants_changes=True) for key in ("1", "2")]
    for count in (1, 2):
        scene.forge.said[7] = Reviews(changes_wanted_by=("ada",), remarks=tuple(said[:count]))
        scene.forge.change()
        await scene.later(500)
    assert scene.told == ["pr_changes_requested"] * 2
    if ends:
        scene.forge.change(state=PullRequestState.CLOSED)
        await scene.later(500)
        scene.forge.change(state=PullRequestState.OPEN)
    scene.clock.advance(60 * 86_400.0)
    told = len(scene.told)
    await scene.restart()
    scene.watch()
    await scene.later(500)
    assert scene.told[told:] == ([] if known else ["pr_changes_requested"])


async def test_plain_comments_ride_along_and_wake_only_if_wanted(tmp_path: Path) -> None:
    comment = remark("1", "nice")
    async with scene_of(tmp_path) as scene:
        scene.forge.open()
        scene.forge.said[7] = Reviews(remarks=(comment,))
        scene.watch()
        await scene.later(300)
        assert scene.told == []
        wanted = remark("2", "rename it", wants_changes=True)
        scene.forge.said[7] = Reviews(remarks=(comment, wanted))
        scene.forge.change()
        await scene.later(300)
        assert [each.text for each in scene.events[-1].details] == ["nice", "rename it"]
    async with scene_of(tmp_path, wake_on_comments=True) as scene:
        scene.forge.open()
        scene.forge.said[7] = Reviews(remarks=(comment,))
        scene.watch()
        await scene.quiet()
        assert scene.told == ["pr_changes_requested"]


async def test_who_is_named_is_heard_beside_those_who_may_write(scene: Scene) -> None:
    scene.rules = Rules(review_authors=("Bob", "coderabbit"))
    bob = remark("2", "from bob", author="bob", trusted=False, wants_changes=True)
    bot = remark("3", "from a bot", author="coderabbitai[bot]", trusted=False)
    eve = remark("4", "from eve", author="eve", trusted=False, wants_changes=True)
    scene.forge.open()
    scene.forge.said[7] = Reviews(
        remarks=(remark("1", "from ada"), bob, bot, eve), changes_wanted_by_others=("bob", "eve")
    )
    scene.watch()
    await scene.quiet()
    (event,) = scene.events
    assert [each.text for each in event.details] == ["from ada", "from bob", "from a bot"]
    text = (await scene.stands())["text"]
    assert "changes are wanted by bob" in text
    assert "what eve wrote is not heard" in text


@pytest.mark.parametrize(
    ("authors", "by_bots"),
    [
        (["coderabbitai[bot]"], True),
        (["coderabbitai[bot]", "bob"], True),  # most forges do not tell bots from people
        (["coderabbitai[bot]", "ada"], False),
    ],
)
async def test_what_only_bots_say_is_told_as_theirs(
    scene: Scene, authors: list[str], *, by_bots: bool
) -> None:
    scene.rules = Rules(review_authors=("coderabbit", "bob"))
    scene.forge.open()
    scene.forge.said[7] = Reviews(
        remarks=tuple(
            remark(who, "rename it", author=who, trusted=who == "ada", wants_changes=True)
            for who in authors
        )
    )
    scene.watch()
    await scene.quiet()
    assert [event.by_bots for event in scene.events] == [by_bots]


@pytest.mark.parametrize(
    ("who", "by_bots"),
    [("ada", False), ("renovate[bot]", True), ("project_4_bot_9f3", True)],
)
async def test_a_request_without_words_is_known_as_a_bots_too(
    scene: Scene, who: str, *, by_bots: bool
) -> None:
    scene.rules = Rules(review_authors=("coderabbit",))
    scene.forge.open()
    scene.forge.said[7] = Reviews(changes_wanted_by=(who,))
    scene.watch()
    await scene.quiet()
    scene.forge.said[7] = Reviews(
        changes_wanted_by=(who,), changes_wanted_by_others=("coderabbitai[bot]",)
    )
    scene.forge.change()
    await scene.later(300)
    assert [event.by_bots for event in scene.events] == [by_bots, True]


@pytest.mark.parametrize(
    ("author", "named", "heard"),
    [
        ("Copilot", "copilot", True),
        ("copilot-pull-request-reviewer[bot]", "Copilot", True),
        ("coderabbitai[bot]", "coderabbitai", True),
        ("coderabbitai", "coderabbit", False),  # whoever registers the name at a forge
        ("claude", "codex", False),
    ],
)
def test_bots_are_heard_by_the_name_that_people_know(
    author: str, named: str, *, heard: bool
) -> None:
    assert is_heard(author, Rules(review_authors=(named,)), trusted=False) is heard


async def test_what_is_marked_as_done_at_the_forge_is_not_told(scene: Scene) -> None:
    scene.rules = Rules(wake_on_comments=True)
    scene.forge.open()
    done = remark("1", "rename it", wants_changes=True, resolved=True)
    scene.forge.said[7] = Reviews(remarks=(done, remark("2", "and this")))
    scene.watch()
    await scene.quiet()
    (event,) = scene.events
    assert [each.text for each in event.details] == ["and this"]


async def test_only_authors_that_are_named_are_heard_where_that_is_set(scene: Scene) -> None:
    scene.rules = Rules(review_authors=("bob",), review_authors_only=True)
    scene.forge.open()
    scene.forge.said[7] = Reviews(
        remarks=(
            remark("1", "from ada", wants_changes=True),
            remark("2", "from bob", author="bob", trusted=False, wants_changes=True),
        ),
        changes_wanted_by=("ada",),
    )
    scene.watch()
    await scene.quiet()
    assert [each.text for each in scene.events[-1].details] == ["from bob"]
