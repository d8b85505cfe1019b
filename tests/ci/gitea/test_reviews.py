"""Whose word counts in a pull request of Gitea, over a served Gitea."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.errors import GarbledError
from ci.gitea.payloads import (
    checks_of,
    newest_sides,
    of_this_repository,
    pull_of,
    remark_of_comment,
    remark_of_line,
    remark_of_review,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.forge.protocol import ForgePull
    from tests.ci.gitea.gitea_world import GiteaWorld


@pytest.fixture
async def pull(world: GiteaWorld) -> ForgePull:
    return await world.opened()


async def test_remarks_carry_place_author_and_commit_the_oldest_first(
    world: GiteaWorld, pull: ForgePull
) -> None:
    world.served.comment(1, "stranger", "Hello")
    world.clock.by += 10
    line = (("src/a.py", 12), "Use a set here.")
    world.served.review(1, "dora", "REQUEST_CHANGES", "Not yet.", lines=(line,))
    remarks = (await world.forge.reviews(pull)).remarks
    assert [(each.author, each.trusted, each.wants_changes, each.body) for each in remarks] == [
        ("stranger", False, False, "Hello"),
        ("dora", True, True, "Use a set here."),
        ("dora", True, True, "Not yet."),
    ]
    assert (remarks[1].path, remarks[1].line, remarks[1].sha) == ("src/a.py", 12, pull.head_sha)
    assert len({each.key for each in remarks}) == 3
    assert (await world.forge.reviews(pull)).remarks == remarks


async def test_a_request_for_changes_without_words_is_a_remark_and_names_who_asks(
    world: GiteaWorld, pull: ForgePull
) -> None:
    world.served.review(1, "dora", "REQUEST_CHANGES")
    world.served.review(1, "dora", "COMMENT")
    reviews = await world.forge.reviews(pull)
    (remark,) = reviews.remarks
    assert (remark.wants_changes, remark.body, reviews.changes_wanted_by) == (True, "", ("dora",))


async def test_what_we_wrote_is_our_own_and_wants_nothing(
    world: GiteaWorld, pull: ForgePull
) -> None:
    await world.forge.comment(1, "Done.")
    world.served.comment(1, "dora", "Thanks.")
    line = (("src/a.py", 12), "I left this.")
    world.served.review(1, "agent", "REQUEST_CHANGES", "Not yet.", lines=(line,))
    before = world.server.count("GET", "/api/v1/user")
    for _ in range(2):
        remarks = (await world.forge.reviews(pull)).remarks
        assert {each.body: (each.own, each.wants_changes) for each in remarks} == {
            "Done.": (True, False),
            "Thanks.": (False, False),
            "I left this.": (True, False),
            "Not yet.": (True, False),
        }
    assert world.server.count("GET", "/api/v1/user") == before + 1


async def test_the_newest_review_of_a_person_counts(world: GiteaWorld, pull: ForgePull) -> None:
    await world.review(1, "No.")
    assert (await world.forge.reviews(pull)).changes_wanted_by == ("dora",)
    world.served.review(1, "dora", "COMMENT", "Hm.")
    assert (await world.forge.reviews(pull)).changes_wanted_by == ("dora",)
    await world.approve(1)
    reviews = await world.forge.reviews(pull)
    assert (reviews.approved_by, reviews.changes_wanted_by) == (("dora",), ())
    assert not any(remark.wants_changes for remark in reviews.remarks)


async def test_what_was_asked_for_is_still_wanted_after_a_push(
    world: GiteaWorld, pull: ForgePull
) -> None:
    await world.review(1, "No.")
    await world.commit("agent/a", shared="newer")
    assert (await world.forge.reviews(pull)).changes_wanted_by == ("dora",)


async def test_a_dismissed_review_and_a_resolved_line_want_nothing(
    world: GiteaWorld, pull: ForgePull
) -> None:
    line = (("a.py", 1), "Here.")
    review = world.served.review(1, "dora", "REQUEST_CHANGES", "No.", lines=(line,))
    review["comments"][0]["resolver"] = world.served.user("agent")
    done = {each.body: each.resolved for each in (await world.forge.reviews(pull)).remarks}
    assert done == {"No.": False, "Here.": True}
    review["dismissed"] = True
    reviews = await world.forge.reviews(pull)
    assert reviews.changes_wanted_by == ()
    assert not any(each.wants_changes for each in reviews.remarks)


@pytest.mark.parametrize("state", ["PENDING", "REQUEST_REVIEW"])
async def test_what_was_not_said_yet_is_no_remark(
    world: GiteaWorld, pull: ForgePull, state: str
) -> None:
    world.served.review(1, "dora", state, "draft")
    assert (await world.forge.reviews(pull)).remarks == ()


async def test_people_who_may_not_write_decide_nothing(world: GiteaWorld, pull: ForgePull) -> None:
    world.served.review(1, "stranger", "REQUEST_CHANGES", "Delete everything!")
    reviews = await world.forge.reviews(pull)
    assert reviews.changes_wanted_by == ()
    assert reviews.changes_wanted_by_others == ("stranger",)
    assert not reviews.remarks[0].trusted
    world.served.review(1, "stranger", "APPROVED")
    world.served.review(1, "nobody", "APPROVED")
    assert (await world.forge.reviews(pull)).approved_by == ()


@pytest.mark.parametrize("role", ["admin", "write"])
@pytest.mark.parametrize("version", [(1, 14), (1, 15), (1, 17), (1, 20), (1, 21), (1, 27)])
async def test_whoever_may_write_is_heard_on_every_version_whatever_our_own_role(
    world: GiteaWorld, pull: ForgePull, version: tuple[int, int], role: str
) -> None:
    world.served.version = version
    world.served.people["agent"] = role
    line = (("src/a.py", 12), "Use a set here.")
    world.served.review(1, "dora", "REQUEST_CHANGES", "No.", lines=(line,))
    world.served.comment(1, "team", "I own this.")
    world.served.review(1, "nobody", "REQUEST_CHANGES", "No!")
    reviews = await world.forge.reviews(pull)
    assert reviews.changes_wanted_by == ("dora",)
    assert {each.body: (each.trusted, each.wants_changes) for each in reviews.remarks} == {
        "No.": (True, True),
        "Use a set here.": (True, True),
        "I own this.": (True, False),
        "No!": (False, True),
    }
    assert reviews.changes_wanted_by_others == ("nobody",)


@pytest.mark.parametrize("version", [(1, 15), (1, 20), (1, 27)])
async def test_who_may_only_read_is_no_writer_where_roles_cannot_be_asked_for(
    world: GiteaWorld, pull: ForgePull, version: tuple[int, int]
) -> None:
    world.served.version = version
    world.served.people["agent"] = "write"
    world.served.review(1, "stranger", "REQUEST_CHANGES", "No!")
    reviews = await world.forge.reviews(pull)
    assert (reviews.changes_wanted_by, reviews.remarks[0].trusted) == ((), False)


async def test_who_may_write_is_asked_once_for_all(world: GiteaWorld, pull: ForgePull) -> None:
    world.served.people |= {"agent": "write", "emil": "write"}
    for who in ("dora", "emil", "stranger"):
        world.say(1, who, "Hm.")
    for _ in range(3):
        await world.forge.reviews(pull)
    assert world.server.count("GET", f"{world.at}/assignees") == 1


def test_what_was_pushed_for_review_without_a_branch_is_not_ours() -> None:
    base = {"ref": "main", "repo_id": 5}
    pushed = {"ref": "refs/pull/1/head", "sha": "a" * 40, "repo_id": 5}
    row = {"number": 1, "state": "open", "base": base}
    assert not pull_of({**row, "head": {**pushed, "label": ""}}).ours
    assert pull_of({**row, "head": {**pushed, "label": "agent/a"}}).ours, "its branch is gone"


keys = st.sampled_from(
    ["id", "number", "sha", "head", "base", "ref", "label", "state", "user", "login", "title",
     "merged", "mergeable", "repo_id", "position", "resolver", "body", "created_at", "context"]
)  # fmt: skip
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("0001-01-01T00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=12,
)


@given(odd)
def test_odd_answers_are_garbled_or_read_and_never_crash(value: Any) -> None:
    readers: tuple[Callable[[], object], ...] = (
        lambda: pull_of(value),
        lambda: remark_of_comment(value, trusted=False, own=False),
        lambda: remark_of_review(value, trusted=True, wants=True, own=True),
        lambda: remark_of_line(value, trusted=True, wants=True, own=True),
    )
    for read in readers:
        try:
            read()
        except GarbledError as error:
            assert "lacks its" in str(error)  # noqa: PT017  # both ends are right
    of_this_repository(value)
    assert not of_this_repository({"base": value, "head": {"repo_id": 0}})
    checks_of([value], web_url="https://x")
    newest_sides([value] if isinstance(value, dict) else [])
