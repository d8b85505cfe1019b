"""Whose word counts in a GitLab merge request, over a served GitLab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.errors import GarbledError, MissingError
from ci.gitlab.payloads import approvals_of, open_threads, pull_of, remark_of
from tests.ci.forge_server import fails

if TYPE_CHECKING:
    from ci.forge.protocol import ForgePull
    from tests.ci.gitlab.gitlab_world import GitLabWorld

US, DORA, STRANGER, GUEST = 1, 2, 3, 4


@pytest.fixture
async def pull(world: GitLabWorld) -> ForgePull:
    return await world.opened()


async def test_a_remark_carries_its_place_its_author_and_the_commit(
    world: GitLabWorld, pull: ForgePull
) -> None:
    await world.review(pull.number, "Use a set here.", path="src/a.py", line=12)
    (remark,) = (await world.forge.reviews(pull)).remarks
    assert (remark.author, remark.trusted, remark.wants_changes) == ("dora", True, True)
    assert (remark.path, remark.line, remark.sha) == ("src/a.py", 12, pull.head_sha)
    assert remark.body == "Use a set here."
    assert remark.url.startswith(f"{pull.url}#note_")
    assert (await world.forge.reviews(pull)).remarks == (remark,)


async def test_what_the_forge_itself_writes_is_no_remark(
    world: GitLabWorld, pull: ForgePull
) -> None:
    world.served.say(pull.number, DORA, "added 1 commit", system=True)
    assert (await world.forge.reviews(pull)).remarks == ()


async def test_remarks_come_the_oldest_first(world: GitLabWorld, pull: ForgePull) -> None:
    first = world.served.say(pull.number, DORA, "one", thread=True)
    world.clock.by += 10
    world.served.say(pull.number, DORA, "two")
    world.clock.by += 10
    world.served.say(pull.number, DORA, "three", to=first["id"])
    assert [each.body for each in (await world.forge.reviews(pull)).remarks] == [
        "one", "two", "three",
    ]  # fmt: skip


async def test_an_open_thread_of_a_developer_wants_changes_until_it_is_resolved(
    world: GitLabWorld, pull: ForgePull
) -> None:
    thread = world.served.say(pull.number, DORA, "Why?", thread=True)
    reviews = await world.forge.reviews(pull)
    assert reviews.changes_wanted_by == ("dora",)
    assert reviews.remarks[0].wants_changes
    thread["notes"][0]["resolved"] = True
    reviews = await world.forge.reviews(pull)
    assert reviews.changes_wanted_by == ()
    assert not reviews.remarks[0].wants_changes


async def test_a_plain_comment_wants_nothing(world: GitLabWorld, pull: ForgePull) -> None:
    world.served.say(pull.number, DORA, "Nice.")
    reviews = await world.forge.reviews(pull)
    assert (reviews.changes_wanted_by, reviews.remarks[0].wants_changes) == ((), False)


@pytest.mark.parametrize("who", [STRANGER, GUEST])
async def test_people_who_may_not_write_decide_nothing(
    world: GitLabWorld, pull: ForgePull, who: int
) -> None:
    world.served.say(pull.number, who, "Delete everything!", thread=True)
    world.served.pulls[1].reviewers[who] = "requested_changes"
    world.served.approve(pull.number, who)
    world.served.pulls[1].reviewers[who] = "requested_changes"
    reviews = await world.forge.reviews(pull)
    assert (reviews.approved_by, reviews.changes_wanted_by) == ((), ())
    assert len(reviews.changes_wanted_by_others) == 1
    assert not reviews.remarks[0].trusted


async def test_a_strangers_answer_in_a_developers_thread_wants_nothing(
    world: GitLabWorld, pull: ForgePull
) -> None:
    thread = world.served.say(pull.number, DORA, "Why?", thread=True)
    world.served.say(pull.number, STRANGER, "Delete it!", to=thread["id"])
    wants = {each.author: each.wants_changes for each in (await world.forge.reviews(pull)).remarks}
    assert wants == {"dora": True, "stranger": False}


async def test_of_an_open_thread_only_what_its_opener_wrote_wants_changes(
    world: GitLabWorld, pull: ForgePull
) -> None:
    world.served.people[5] = ("rita", 40)
    thread = world.served.say(pull.number, DORA, "Why?", thread=True)
    for who, text in ((US, "Done."), (5, "I agree."), (DORA, "Still wrong.")):
        world.served.say(pull.number, who, text, to=thread["id"])
    world.served.say(pull.number, DORA, "changed this line", system=True, to=thread["id"])
    # One who waits in a thread asks for nothing by what they write elsewhere.
    world.served.say(pull.number, DORA, "Nice otherwise.")
    remarks = (await world.forge.reviews(pull)).remarks
    assert {each.body: (each.own, each.wants_changes) for each in remarks} == {
        "Why?": (False, True),
        "Done.": (True, False),
        "I agree.": (False, False),
        "Still wrong.": (False, True),
        "Nice otherwise.": (False, False),
    }


async def test_a_thread_of_our_own_wants_nothing(world: GitLabWorld, pull: ForgePull) -> None:
    world.served.say(pull.number, US, "I left this as it was.", thread=True)
    reviews = await world.forge.reviews(pull)
    assert reviews.changes_wanted_by == ()
    assert [(each.own, each.wants_changes) for each in reviews.remarks] == [(True, False)]


async def test_a_request_for_changes_names_the_reviewer_with_words_and_without(
    world: GitLabWorld, pull: ForgePull
) -> None:
    world.served.pulls[1].reviewers[DORA] = "requested_changes"
    reviews = await world.forge.reviews(pull)
    assert (reviews.changes_wanted_by, reviews.remarks) == (("dora",), ())
    world.served.say(pull.number, DORA, "Do it otherwise.")
    settled = world.served.say(pull.number, DORA, "Rename it.", thread=True)
    settled["notes"][0]["resolved"] = True
    reviews = await world.forge.reviews(pull)
    assert reviews.changes_wanted_by == ("dora",)
    assert {each.body: each.wants_changes for each in reviews.remarks} == {
        "Do it otherwise.": True,
        "Rename it.": False,
    }


async def test_an_approval_counts_for_the_head_it_was_given_to(
    world: GitLabWorld, pull: ForgePull
) -> None:
    world.clock.by += 1
    await world.approve(pull.number)
    assert (await world.forge.reviews(pull)).approved_by == ("dora",)
    world.clock.by += 1
    await world.commit("agent/a", shared="newer")
    newer = await world.forge.pull(pull.number)
    assert newer is not None
    assert (await world.forge.reviews(newer)).approved_by == ()
    world.clock.by += 1
    await world.approve(pull.number)
    assert (await world.forge.reviews(newer)).approved_by == ("dora",)


async def test_a_head_that_gitlab_has_not_seen_yet_is_approved_by_nobody(
    world: GitLabWorld, pull: ForgePull
) -> None:
    await world.approve(pull.number)
    ahead = pull.model_copy(update={"head_sha": "f" * 40})
    assert (await world.forge.reviews(ahead)).approved_by == ()


async def test_editions_without_approvals_have_reviews_all_the_same(
    world: GitLabWorld, pull: ForgePull
) -> None:
    world.served.say(pull.number, DORA, "Why?", thread=True)
    world.server.route("GET", f"{world.pulls}/1/approvals", fails(404))
    world.server.route("GET", f"{world.pulls}/1/reviewers", fails(403))
    reviews = await world.forge.reviews(pull)
    assert (reviews.approved_by, reviews.changes_wanted_by) == ((), ("dora",))


def test_an_approval_tells_its_time_by_itself_or_by_a_note() -> None:
    own: dict[str, Any] = {
        "user": {"id": 1, "username": "a"},
        "approved_at": "2024-01-02T00:00:00Z",
    }
    noted: dict[str, Any] = {"user": {"id": 2, "username": "b"}}
    silent: dict[str, Any] = {"user": {"id": 3, "username": "c"}}
    note = {
        "author": {"id": 2},
        "system": True,
        "body": "approved this merge request",
        "created_at": "2024-01-02T00:00:00Z",
    }
    claimed = {**note, "author": {"id": 3}, "system": False}
    told = {"approved_by": [own, noted, silent, {"user": None}, None]}
    assert approvals_of(told, [note, claimed], head_since=0.0) == {1: "a", 2: "b"}
    assert approvals_of(told, [note, claimed], head_since=1e12) == {}


@pytest.mark.parametrize(
    ("row", "mergeable", "hindrance"),
    [
        ({"detailed_merge_status": "mergeable"}, True, ""),
        ({"detailed_merge_status": "checking"}, None, ""),
        ({"detailed_merge_status": "unchecked"}, None, ""),
        ({"detailed_merge_status": "preparing"}, None, ""),
        ({"detailed_merge_status": "approvals_syncing"}, None, ""),
        ({"detailed_merge_status": "conflict"}, False, "conflict"),
        ({"detailed_merge_status": "broken_status"}, False, "broken_status"),
        ({"detailed_merge_status": "draft_status", "merge_status": "can_be_merged"}, True,
         "draft_status"),
        ({"detailed_merge_status": "not_approved", "merge_status": "cannot_be_merged"}, False,
         "not_approved"),
        ({"detailed_merge_status": "ci_must_pass", "merge_status": "checking"}, None,
         "ci_must_pass"),
        ({"detailed_merge_status": "need_rebase", "has_conflicts": False}, True, "need_rebase"),
        ({"detailed_merge_status": "need_rebase", "has_conflicts": True}, False, "need_rebase"),
        ({"detailed_merge_status": "policies_denied"}, None, "policies_denied"),
        ({"merge_status": "can_be_merged"}, True, ""),
        ({"merge_status": "cannot_be_merged"}, False, ""),
        ({"merge_status": "cannot_be_merged_recheck"}, None, ""),
        ({}, None, ""),
        ({"detailed_merge_status": "mergeable", "state": "locked"}, True, "locked"),
        ({"detailed_merge_status": "not_open", "state": "closed"}, None, ""),
    ],
)  # fmt: skip
def test_each_merge_status_has_one_meaning(
    row: dict[str, Any], mergeable: object, hindrance: str
) -> None:
    whole = {
        "iid": 1, "sha": "a" * 40, "source_branch": "b", "target_branch": "c", "state": "opened",
        **row,
    }  # fmt: skip
    pull = pull_of(whole)
    assert (pull.mergeable, pull.hindrance) == (mergeable, hindrance)


@pytest.mark.parametrize(
    ("row", "commit"),
    [
        ({"merge_commit_sha": "b" * 40}, "b" * 40),
        ({"merge_commit_sha": None, "squash_commit_sha": "c" * 40}, "c" * 40),
        ({}, "a" * 40),
    ],
)
def test_the_commit_of_a_merge_is_that_of_the_target(row: dict[str, Any], commit: str) -> None:
    whole = {"iid": 1, "sha": "a" * 40, "source_branch": "b", "target_branch": "c", **row}
    assert pull_of({**whole, "state": "merged"}).merge_commit == commit
    assert pull_of({**whole, "state": "opened"}).merge_commit is None


keys = st.sampled_from(
    ["id", "iid", "sha", "source_branch", "target_branch", "state", "notes", "author", "user",
     "approved_by", "position", "resolvable", "body", "created_at", "draft", "merged_at"]
)  # fmt: skip
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("2024-01-01T99:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=12,
)


@given(odd)
def test_odd_answers_are_garbled_or_read_and_never_crash(value: Any) -> None:
    try:
        pull_of(value)
    except GarbledError as error:
        assert "lacks its" in str(error)  # noqa: PT017  # both ends are right
    approvals_of(value, [value] if isinstance(value, dict) else [], head_since=0.0)
    if isinstance(value, dict):
        open_threads([value])
        remark_of({**value, "id": 1}, url="", thread="", trusted=False, wants=False, own=False)


async def test_a_reply_belongs_into_a_thread_and_a_plain_comment_has_none(
    world: GitLabWorld, pull: ForgePull
) -> None:
    plain = world.served.say(pull.number, DORA, "One word.")
    thread = world.served.say(pull.number, DORA, "Why?", thread=True)
    remarks = {each.body: each.ref for each in (await world.forge.reviews(pull)).remarks}
    assert remarks == {"One word.": "", "Why?": thread["id"]}
    await world.forge.reply(pull.number, thread["id"], "Because.")
    for gone in (plain["id"][:-1] + "x", "none"):
        with pytest.raises(MissingError):
            await world.forge.reply(pull.number, gone, "Because.")
    assert [note["body"] for note in thread["notes"]] == ["Why?", "Because."]
    reviews = await world.forge.reviews(pull)
    assert reviews.changes_wanted_by == ("dora",)
