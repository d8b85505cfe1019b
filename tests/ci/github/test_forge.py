"""GitHub as a forge, against emulate's GitHub around real repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.errors import MissingError, RefusedError, UnauthorizedError
from ci.events import CheckState
from ci.forge.protocol import NewPull

if TYPE_CHECKING:
    from tests.ci.github.github_world import EmulatedWorld

PENDING, PASSED, FAILED = CheckState.PENDING, CheckState.PASSED, CheckState.FAILED


async def test_a_refusal_that_is_about_something_else_is_told(world: EmulatedWorld) -> None:
    with pytest.raises(RefusedError, match="422"):
        await world.forge.create_pull(NewPull(branch="never/pushed", base="main", title="x"))


async def test_labels_are_put_on_and_an_impossible_one_is_no_failure(world: EmulatedWorld) -> None:
    await world.call("POST", "/labels", {"name": "agent", "color": "ededed"})
    await world.commit("agent/a")
    forge = world.forge
    made = await forge.create_pull(
        NewPull(branch="agent/a", base="main", title="t", body="", labels=("agent",))
    )
    shown = await world.call("GET", f"/pulls/{made.number}")
    assert [label["name"] for label in shown["labels"]] == ["agent"]
    await world.commit("agent/b")
    bare = await forge.create_pull(
        NewPull(branch="agent/b", base="main", title="t", body="", labels=("there is none such",))
    )
    assert bare.number > made.number


async def test_a_red_check_is_explained_by_what_it_says(world: EmulatedWorld) -> None:
    sha = await world.commit("agent/a")
    notes = [
        {
            "path": "sum.py",
            "start_line": 3,
            "end_line": 3,
            "annotation_level": "failure",
            "message": "2 is not 3",
        }
    ]
    output = {"title": "1 failed", "summary": "one of two", "text": "the sum", "annotations": notes}
    await world.check(sha, "unit", conclusion="failure", output=output)
    unit = next(each for each in await world.forge.checks(sha) if each.name == "unit")
    assert (unit.summary, unit.excerpt) == ("1 failed", "")
    told = await world.forge.explain(sha, unit)
    assert told.excerpt == "1 failed\none of two\nthe sum\nsum.py:3: failure: 2 is not 3"
    assert (told.name, told.state, told.url) == (unit.name, unit.state, unit.url)


async def test_a_check_run_is_run_once_more(world: EmulatedWorld) -> None:
    sha = await world.commit("agent/a", outcome="red")
    assert await world.forge.rerun(sha, await world.forge.checks(sha))
    assert [check.how for check in await world.forge.checks(sha)] == ["queued"]


async def test_a_review_may_speak_about_lines(world: EmulatedWorld) -> None:
    pull = await world.opened()
    await world.review(pull.number, body="not yet", lines=[("shared.txt", 1, "say it better")])
    seen = await world.forge.reviews(pull)
    assert {(each.body, each.path, each.line, each.wants_changes) for each in seen.remarks} == {
        ("not yet", "", None, True),
        ("say it better", "shared.txt", 1, True),
    }
    assert all(each.trusted and each.author == "rita" for each in seen.remarks)


async def test_what_is_not_there_cannot_be_closed(world: EmulatedWorld) -> None:
    with pytest.raises(MissingError):
        await world.forge.close_pull(77)


async def test_a_refused_token_is_replaced_once(world: EmulatedWorld) -> None:
    tokens = ["wrong", world.tokens["wright"]]
    refused: list[str] = []

    async def sign() -> dict[str, str]:
        return {"Authorization": f"Bearer {tokens[0]}"}

    def renew() -> bool:
        refused.append(tokens.pop(0))
        return True

    forge = world.new_forge(sign=sign, renew=renew)
    await forge.comment((await world.opened()).number, "hello")
    assert refused == ["wrong"]


async def test_a_wrong_token_is_told_and_never_shown(world: EmulatedWorld) -> None:
    async def sign() -> dict[str, str]:
        return {"Authorization": "Bearer ghp_very_secret"}

    forge = world.new_forge(sign=sign)
    with pytest.raises(UnauthorizedError, match="doctor") as caught:
        await forge.access()
    assert "very_secret" not in str(caught.value)
