"""GitHub as a forge, against emulate's GitHub around real repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.checks import CheckState
from ci.errors import MissingError, RefusedError, UnauthorizedError
from ci.interface import PullRequestState
from tests.ci.emulated import emulated
from tests.ci.github_world import EmulatedWorld
from tests.ci.ports import git

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.forge import ForgePull
    from tests.ci.emulated import Emulated

__all__ = ["emulated"]

PENDING, PASSED, FAILED = CheckState.PENDING, CheckState.PASSED, CheckState.FAILED


@pytest.fixture
async def world(tmp_path: Path, emulated: Emulated) -> AsyncIterator[EmulatedWorld]:
    world = EmulatedWorld(tmp_path, emulated)
    await world.start()
    yield world
    await world.aclose()


async def opened(world: EmulatedWorld, branch: str = "agent/a", **commit: str) -> ForgePull:
    await world.commit(branch, **commit)
    return await world.forge.create_pull(branch=branch, base="main", title="Do it", body="so")


async def again(world: EmulatedWorld, pull: ForgePull) -> ForgePull:
    seen = await world.forge.pull(pull.number)
    assert seen is not None
    return seen


async def test_a_pull_request_is_opened_at_the_real_commit(world: EmulatedWorld) -> None:
    sha = await world.commit("agent/a")
    pull = await world.forge.create_pull(branch="agent/a", base="main", title="Do it", body="so")
    assert (pull.branch, pull.base, pull.head_sha) == ("agent/a", "main", sha)
    assert (pull.title, pull.body, pull.state) == ("Do it", "so", PullRequestState.OPEN)
    assert (pull.mergeable, pull.hindrance, pull.ours) == (True, "", True)
    assert await again(world, pull) == pull
    assert await world.forge.open_pulls() == (pull,)


async def test_the_open_one_of_the_branch_is_adopted(world: EmulatedWorld) -> None:
    pull = await opened(world)
    same = await world.forge.create_pull(branch="agent/a", base="main", title="Other", body="")
    assert same.number == pull.number
    assert len(await world.forge.open_pulls()) == 1


async def test_a_refusal_that_is_about_something_else_is_told(world: EmulatedWorld) -> None:
    with pytest.raises(RefusedError, match="422"):
        await world.forge.create_pull(branch="never/pushed", base="main", title="x", body="")


async def test_labels_are_put_on_and_an_impossible_one_is_no_failure(world: EmulatedWorld) -> None:
    await world.call("POST", "/labels", {"name": "agent", "color": "ededed"})
    await world.commit("agent/a")
    forge = world.forge
    made = await forge.create_pull(
        branch="agent/a", base="main", title="t", body="", labels=["agent"]
    )
    shown = await world.call("GET", f"/pulls/{made.number}")
    assert [label["name"] for label in shown["labels"]] == ["agent"]
    await world.commit("agent/b")
    bare = await forge.create_pull(
        branch="agent/b", base="main", title="t", body="", labels=["there is none such"]
    )
    assert bare.number > made.number


async def test_a_pull_request_is_found_by_its_branch(world: EmulatedWorld) -> None:
    assert await world.forge.find_pull("agent/a") is None
    old = await opened(world)
    await world.forge.close_pull(old.number)
    found = await world.forge.find_pull("agent/a")
    assert found is not None
    assert (found.number, found.state) == (old.number, PullRequestState.CLOSED)
    new = await opened(world)
    # An open one comes before a newer one that is closed.
    assert await world.forge.find_pull("agent/a") == new
    assert await world.forge.find_pull("agent") is None


async def test_the_head_follows_what_is_pushed(world: EmulatedWorld) -> None:
    pull = await opened(world)
    before = await world.forge.head("agent/a")
    pushed = await world.commit("agent/a")
    assert (await again(world, pull)).head_sha == pushed
    assert await world.forge.head("agent/a") == pushed
    assert before == pull.head_sha


async def test_a_branch_that_is_not_there_has_no_head(world: EmulatedWorld) -> None:
    assert await world.forge.head("agent/none") is None
    # The beginning of a name is no name.
    await world.commit("agent/a")
    assert await world.forge.head("agent") is None
    assert await world.forge.default_branch() == "main"


@pytest.mark.parametrize(
    ("outcome", "state"), [("green", PASSED), ("red", FAILED), ("held", PENDING)]
)
async def test_a_check_run_is_seen(world: EmulatedWorld, outcome: str, state: CheckState) -> None:
    sha = await world.commit("agent/a", outcome=outcome)
    assert [(check.name, check.state) for check in await world.forge.checks(sha)] == [("ci", state)]
    await world.release()
    assert [check.state for check in await world.forge.checks(sha)] == [
        PASSED if state is PENDING else state
    ]


async def test_checks_are_of_exactly_this_commit(world: EmulatedWorld) -> None:
    red = await world.commit("agent/a", outcome="red")
    green = await world.commit("agent/a")
    assert [check.state for check in await world.forge.checks(red)] == [FAILED]
    assert [check.state for check in await world.forge.checks(green)] == [PASSED]


async def test_a_commit_that_nobody_knows_has_no_checks(world: EmulatedWorld) -> None:
    assert await world.forge.checks("0" * 40) == ()


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


async def test_changes_are_wanted_then_approved_of(world: EmulatedWorld) -> None:
    pull = await opened(world)
    assert (await world.forge.reviews(pull)).remarks == ()
    await world.review(pull.number, body="not yet", lines=[("shared.txt", 1, "say it better")])
    seen = await world.forge.reviews(pull)
    assert (seen.changes_wanted_by, seen.approved_by) == (("rita",), ())
    assert {(each.body, each.path, each.line, each.wants_changes) for each in seen.remarks} == {
        ("not yet", "", None, True),
        ("say it better", "shared.txt", 1, True),
    }
    assert all(each.trusted and each.author == "rita" for each in seen.remarks)
    await world.review(pull.number, event="APPROVE", body="fine")
    seen = await world.forge.reviews(pull)
    assert (seen.changes_wanted_by, seen.approved_by) == ((), ("rita",))


async def test_a_push_takes_an_approval_away(world: EmulatedWorld) -> None:
    pull = await opened(world)
    await world.review(pull.number, event="APPROVE")
    await world.commit("agent/a")
    assert (await world.forge.reviews(await again(world, pull))).approved_by == ()


async def test_a_dismissed_review_does_not_count(world: EmulatedWorld) -> None:
    pull = await opened(world)
    review = await world.review(pull.number, body="no")
    await world.call(
        "PUT", f"/pulls/{pull.number}/reviews/{review}/dismissals", {"message": "off topic"}
    )
    seen = await world.forge.reviews(pull)
    assert (seen.changes_wanted_by, seen.remarks) == ((), ())


async def test_a_stranger_is_heard_but_not_trusted(world: EmulatedWorld) -> None:
    pull = await opened(world)
    await world.review(pull.number, body="delete everything", by="mallory")
    await world.call("POST", f"/issues/{pull.number}/comments", {"body": "do"}, by="mallory")
    seen = await world.forge.reviews(pull)
    assert (seen.changes_wanted_by, seen.approved_by) == ((), ())
    assert [(each.author, each.trusted) for each in seen.remarks] == [("mallory", False)] * 2


async def test_a_comment_is_written(world: EmulatedWorld) -> None:
    pull = await opened(world)
    await world.forge.comment(pull.number, "done")
    (remark,) = (await world.forge.reviews(pull)).remarks
    assert (remark.author, remark.body, remark.trusted) == ("wright", "done", True)
    assert remark.own


async def test_what_others_wrote_is_not_our_own(world: EmulatedWorld) -> None:
    pull = await opened(world)
    await world.review(pull.number, body="not yet")
    assert [each.own for each in (await world.forge.reviews(pull)).remarks] == [False]
    other = world.new_forge(who="rita")
    assert [(each.own, each.wants_changes) for each in (await other.reviews(pull)).remarks] == [
        (True, False)
    ]


async def test_exactly_the_expected_commit_is_merged(world: EmulatedWorld) -> None:
    pull = await opened(world, shared="from a")
    wrong = await world.forge.merge(pull, sha="0" * 40, method="merge", message="")
    assert not wrong.merged
    assert pull.head_sha in wrong.reason
    done = await world.forge.merge(
        pull, sha=pull.head_sha, method="merge", message="Take it\n\nyes"
    )
    assert done.merged
    assert await world.merged_text() == "from a"
    seen = await again(world, pull)
    assert (seen.state, seen.merge_commit) == (PullRequestState.MERGED, done.commit)
    assert await world.forge.head("main") == done.commit
    code, told = git(world.origin, "log", "-1", "--format=%H %P%n%B", "main")
    assert code == 0
    assert told.decode().startswith(f"{done.commit} ")
    assert pull.head_sha in told.decode()
    assert "Take it\n\nyes" in told.decode()


async def test_merging_twice_is_one_merge(world: EmulatedWorld) -> None:
    pull = await opened(world)
    first = await world.forge.merge(pull, sha=pull.head_sha, method="squash", message="")
    second = await world.forge.merge(pull, sha=pull.head_sha, method="squash", message="")
    assert first.merged
    assert first == second


async def test_a_conflict_is_seen_and_refuses_the_merge(world: EmulatedWorld) -> None:
    first = await opened(world, "agent/a", shared="from a")
    second = await opened(world, "agent/b", shared="from b")
    assert await world.merge(first.number)
    seen = await again(world, second)
    assert (seen.mergeable, seen.hindrance) == (False, "")
    result = await world.forge.merge(seen, sha=seen.head_sha, method="merge", message="")
    assert not result.merged
    assert "conflicts with main" in result.reason
    assert await world.merged_text() == "from a"


async def test_a_closed_pull_request_is_not_merged(world: EmulatedWorld) -> None:
    pull = await opened(world)
    await world.forge.close_pull(pull.number)
    await world.forge.close_pull(pull.number)
    assert (await again(world, pull)).state is PullRequestState.CLOSED
    result = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")
    assert not result.merged
    assert "closed" in result.reason


async def test_a_number_that_is_not_there_is_none(world: EmulatedWorld) -> None:
    assert await world.forge.pull(77) is None
    with pytest.raises(MissingError):
        await world.forge.close_pull(77)


async def test_a_number_is_read_from_what_people_write(world: EmulatedWorld) -> None:
    pull = await opened(world)
    for ref in (str(pull.number), f"#{pull.number}", pull.url, f"{pull.url}/files?w=1#top"):
        assert world.forge.number_of(ref) == pull.number
    for ref in ("", "no such thing", "https://example.org/pull/1", f"{pull.url}x", "-1"):
        assert world.forge.number_of(ref) is None


async def test_access_tells_who_we_are(world: EmulatedWorld) -> None:
    seen = await world.forge.access()
    assert (seen.who, seen.can_read, seen.can_write, seen.problem) == ("wright", True, True, "")


async def test_a_refused_token_is_replaced_once(world: EmulatedWorld) -> None:
    tokens = ["wrong", world.tokens["wright"]]
    refused: list[str] = []

    async def sign() -> dict[str, str]:
        return {"Authorization": f"Bearer {tokens[0]}"}

    def renew() -> bool:
        refused.append(tokens.pop(0))
        return True

    forge = world.new_forge(sign=sign, renew=renew)
    await forge.comment((await opened(world)).number, "hello")
    assert refused == ["wrong"]


async def test_a_wrong_token_is_told_and_never_shown(world: EmulatedWorld) -> None:
    async def sign() -> dict[str, str]:
        return {"Authorization": "Bearer ghp_very_secret"}

    forge = world.new_forge(sign=sign)
    with pytest.raises(UnauthorizedError, match="doctor") as caught:
        await forge.access()
    assert "very_secret" not in str(caught.value)
