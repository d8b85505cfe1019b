"""What `ci.forge.protocol.Forge` promises, kept by each forge over real git.

A forge joins by a class with a fixture `world`. What only one of them does is tested in its folder.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from ci.errors import (
    ForbiddenError,
    GarbledError,
    MissingError,
    RefusedError,
    UnauthorizedError,
    UnreachableError,
)
from ci.events import CheckState
from ci.forge.protocol import NewPull
from ci.forge.rest import Connection
from ci.forge.watch_state import Bases
from ci.forge_registry import forge_kind
from ci.gitea.writers import LASTS
from ci.interface import PullRequestState
from tests.ci.forge_server import answers, fails
from tests.ci.github.github_world import EmulatedWorld
from tests.ci.served_git import BASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.ci.forge.forge_world import ForgeWorld, ServedWorld
    from tests.ci.github.emulated import Emulated

    Served = ServedWorld[Any]

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING
WRONG = "a-wrong-token"


class ForgeContract:
    async def test_a_pull_request_is_created_with_all_that_was_given(
        self, world: ForgeWorld
    ) -> None:
        sha = await world.commit("agent/a")
        pull = await world.forge.create_pull(
            NewPull(branch="agent/a", base=BASE, title="Do it", body="Why.")
        )
        assert (pull.branch, pull.base, pull.head_sha) == ("agent/a", BASE, sha)
        assert (pull.title, pull.body, pull.state) == ("Do it", "Why.", PullRequestState.OPEN)
        assert pull.base_sha == await world.forge.head(BASE)
        assert pull.ours
        assert pull.created_at > 0
        assert world.forge.number_of(pull.url) == pull.number
        assert [each.number for each in await world.forge.open_pulls()] == [pull.number]

    async def test_after_a_closed_one_a_new_one_is_opened_and_found(
        self, world: ForgeWorld
    ) -> None:
        assert await world.forge.find_pull("agent/a") is None
        old = await world.opened()
        await world.forge.close_pull(old.number)
        await world.forge.close_pull(old.number)
        closed = await world.forge.find_pull("agent/a")
        assert closed is not None
        assert (closed.number, closed.state) == (old.number, PullRequestState.CLOSED)
        new = await world.forge.create_pull(NewPull(branch="agent/a", base=BASE, title="Again"))
        found = await world.forge.find_pull("agent/a")
        assert found is not None
        assert found.number == new.number > old.number
        assert await world.forge.find_pull("agent") is None

    async def test_open_pull_requests_come_the_newest_first(self, world: ForgeWorld) -> None:
        older, newer = await world.opened("agent/a"), await world.opened("agent/b")
        found = [pull.number for pull in await world.forge.open_pulls()]
        assert found == [newer.number, older.number]

    async def test_heads_and_the_default_branch_are_those_of_the_repository(
        self, world: ForgeWorld
    ) -> None:
        for _ in range(2):
            sha = await world.commit("agent/a#1")
            assert await world.forge.head("agent/a#1") == sha
        assert await world.forge.head("agent") is None
        assert await world.forge.default_branch() == BASE
        assert await world.forge.pull(77) is None

    async def test_checks_are_those_of_exactly_this_commit(self, world: ForgeWorld) -> None:
        outcomes: dict[str, list[CheckState]] = {
            "green": [PASSED], "red": [FAILED], "held": [PENDING], "": [],
        }  # fmt: skip
        commits = {
            await world.commit(f"agent/{outcome or 'none'}", outcome=outcome): states
            for outcome, states in outcomes.items()
        }
        for sha, states in {**commits, "f" * 40: []}.items():
            assert [check.state for check in await world.forge.checks(sha)] == states
        await world.release()
        for sha, states in commits.items():
            found = [check.state for check in await world.forge.checks(sha)]
            assert found == [PASSED if state is PENDING else state for state in states]

    async def test_a_failed_check_is_explained_by_its_log(self, world: ForgeWorld) -> None:
        sha = await world.commit("agent/a", outcome="red")
        (check,) = await world.forge.checks(sha)
        assert "the sum is wrong" in (await world.forge.explain(sha, check)).excerpt

    async def test_a_comment_is_written_and_is_our_own(self, world: ForgeWorld) -> None:
        pull = await world.opened()
        await world.forge.comment(pull.number, "Waiting for a person.")
        (remark,) = (await world.forge.reviews(pull)).remarks
        assert (remark.body, remark.own, remark.wants_changes) == (
            "Waiting for a person.", True, False,
        )  # fmt: skip

    async def test_changes_are_wanted_until_the_reviewer_approves(self, world: ForgeWorld) -> None:
        pull = await world.opened()
        await world.review(pull.number, "No.")
        reviews = await world.forge.reviews(pull)
        assert (reviews.approved_by, reviews.changes_wanted_by) == ((), (world.reviewer,))
        (remark,) = reviews.remarks
        assert (remark.author, remark.body) == (world.reviewer, "No.")
        assert (remark.trusted, remark.wants_changes, remark.own) == (True, True, False)
        await world.later()
        await world.approve(pull.number)
        reviews = await world.forge.reviews(pull)
        assert (reviews.approved_by, reviews.changes_wanted_by) == ((world.reviewer,), ())

    async def test_an_approval_counts_for_the_head_it_was_given_to(self, world: ForgeWorld) -> None:
        pull = await world.opened()
        await world.later()
        await world.approve(pull.number)
        assert (await world.forge.reviews(pull)).approved_by == (world.reviewer,)
        await world.later()
        await world.commit("agent/a", shared="newer")
        newer = await world.pull(pull.number)
        assert (await world.forge.reviews(newer)).approved_by == ()

    async def test_a_merge_moves_the_base_once_and_says_its_commit(self, world: ForgeWorld) -> None:
        pull = await world.opened()
        result = await world.try_merge(pull, message="Merge it\n\nBecause.")
        assert result.merged
        assert result.commit == await world.forge.head(BASE)
        assert world.origin.message(result.commit or "") == "Merge it\n\nBecause."
        assert pull.head_sha in world.origin.parents(result.commit or "")
        assert await world.merged_text() == "a"
        seen = await world.pull(pull.number)
        assert (seen.state, seen.merge_commit) == (PullRequestState.MERGED, result.commit)
        assert await world.try_merge(pull) == result
        assert await world.forge.head(BASE) == result.commit

    async def test_squashing_makes_one_commit_with_our_message(self, world: ForgeWorld) -> None:
        result = await world.try_merge(await world.opened(), "squash", message="As one")
        assert result.merged
        assert len(world.origin.parents(result.commit or "")) == 1
        assert world.origin.message(result.commit or "") == "As one"

    async def test_another_head_than_was_looked_at_is_not_merged(self, world: ForgeWorld) -> None:
        pull = await world.opened()
        newer = await world.commit("agent/a", shared="newer")
        result = await world.try_merge(pull)
        assert not result.merged
        assert newer in result.reason
        assert await world.merged_text() == "base"

    async def test_a_conflict_is_seen_and_not_merged(self, world: ForgeWorld) -> None:
        first, second = await world.opened("agent/a"), await world.opened("agent/b", shared="b")
        await world.merge(first.number)
        result = await world.try_merge(second)
        assert not result.merged
        assert "conflicts" in result.reason
        assert (await world.pull(second.number)).mergeable is False
        assert await world.merged_text() == "a"

    async def test_a_base_that_moved_is_noticed_once(self, world: ForgeWorld) -> None:
        first, _ = await world.opened("agent/a"), await world.opened("agent/b", shared="b")
        bases = Bases(world.forge)
        for _ in range(2):
            assert await bases.moved({BASE, "gone"}, await world.forge.open_pulls()) == ()
        await world.merge(first.number)
        assert await bases.moved({BASE}, await world.forge.open_pulls()) == (BASE,)
        assert await bases.moved({BASE}, await world.forge.open_pulls()) == ()

    async def test_a_branch_without_rules_requires_nothing(self, world: ForgeWorld) -> None:
        for branch in (BASE, "gone"):
            rules = await world.forge.branch_rules(branch)
            assert (rules.required_checks, rules.required_approvals) == ((), 0)

    async def test_a_closed_pull_request_is_not_merged(self, world: ForgeWorld) -> None:
        pull = await world.opened()
        await world.forge.close_pull(pull.number)
        result = await world.try_merge(pull)
        assert not result.merged
        assert "closed" in result.reason

    async def test_access_says_who_we_are_and_what_we_may(self, world: ForgeWorld) -> None:
        access = await world.forge.access()
        assert (access.who, access.can_read, access.can_write, access.problem) == (
            world.we, True, True, "",
        )  # fmt: skip

    async def test_a_branch_is_checked_once_a_check_ran_on_its_newest_commit(
        self, world: ForgeWorld
    ) -> None:
        assert not await world.forge.is_checked(BASE)
        await world.commit(BASE)
        assert await world.forge.is_checked(BASE)


class TestServed(ForgeContract):
    @pytest.fixture
    def world(self, served: Served) -> Served:
        return served


class TestGitHub(ForgeContract):
    @pytest.fixture
    async def world(self, emulated: Emulated, tmp_path: Path) -> AsyncIterator[EmulatedWorld]:
        async with EmulatedWorld.running(tmp_path, emulated) as world:
            yield world


# --- what only a server that a test can change shows ----------------------------------------------


async def test_a_refusal_to_create_is_told_with_the_forges_reason(served: Served) -> None:
    await served.commit("agent/a")
    served.server.route("POST", served.pulls, fails(422, "title is of no form that we like"))
    with pytest.raises(RefusedError, match="no form that we like"):
        await served.forge.create_pull(NewPull(branch="agent/a", base=BASE, title="T"))


async def test_who_is_asked_or_assigned_comes_to_those_who_are(served: Served) -> None:
    number = (await served.opened()).number
    for ask, seen in (
        (served.forge.ask_for_review, served.asked),
        (served.forge.assign, served.assigned),
    ):
        await ask(number, ["stranger"])
        await ask(number, [served.reviewer])
        assert sorted(await seen(number)) == [served.reviewer, "stranger"]
        with contextlib.suppress(RefusedError, MissingError):
            await ask(number, ["nobody-of-that-name"])
        assert sorted(await seen(number)) == [served.reviewer, "stranger"]


async def test_branches_of_forks_are_nobodys_pull_request_here(served: Served) -> None:
    await served.opened()
    for fork in served.forks:
        served.served.pulls[1].head_repo = fork
        assert await served.forge.find_pull("agent/a") is None
        assert await served.forge.open_pulls() == ()
        assert not (await served.pull(1)).ours


async def test_what_is_closed_keeps_its_time_whatever_is_written_later(served: Served) -> None:
    await served.opened()
    await served.forge.close_pull(1)
    closed = await served.pull(1)
    served.served.pulls[1].updated += 1_000
    assert await served.pull(1) == closed


async def test_a_repository_that_we_may_not_see_is_no_missing_branch(served: Served) -> None:
    stranger = served.new_forge(repo="team/hidden")
    for asking in (stranger.head(BASE), stranger.pull(1), stranger.checks("f" * 40)):
        with pytest.raises(MissingError):
            await asking
    assert f"{served.we} cannot see" in (await stranger.access()).problem
    await stranger.aclose()


async def test_a_wrong_token_and_a_weak_one_are_told_apart(served: Served) -> None:
    wrong = served.new_forge(WRONG)
    with pytest.raises(UnauthorizedError, match=served.token_variable):
        await wrong.open_pulls()
    access = await wrong.access()
    assert not access.can_read
    assert served.token_variable in access.problem
    assert WRONG not in access.problem
    await wrong.aclose()
    await served.opened()
    served.served.scopes = served.reading_scopes
    with pytest.raises(ForbiddenError, match=served.write_scope):
        await served.forge.comment(1, "x")


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_nobody_is_taken_for_us_by_a_token_of_no_user(served: Served, status: int) -> None:
    pull = await served.opened()
    served.server.route("GET", f"{served.api}/user", fails(status))
    served.say(1, served.we, "Done.")
    for _ in range(2):
        assert not any(each.own for each in (await served.forge.reviews(pull)).remarks)
    assert served.server.count("GET", f"{served.api}/user") == 1


async def test_who_we_are_is_asked_once(served: Served) -> None:
    pull = await served.opened()
    served.say(1, served.we, "Done.")
    for _ in range(2):
        assert (await served.forge.reviews(pull)).remarks[0].own
    assert served.server.count("GET", f"{served.api}/user") == 1


async def test_a_renamed_repository_is_told_with_its_new_name(served: Served) -> None:
    pull = await served.opened()
    assert (await served.forge.called(), served.forge.renamed_to(pull.url)) == (served.repo, "")
    served.served.repo = new = served.repo.replace("loops", "renamed")
    found = await served.pull(pull.number)
    assert (await served.forge.called(), served.forge.renamed_to(found.url)) == (new, new)
    assert (await served.forge.access()).renamed_to == new


async def test_a_role_is_asked_for_once_in_a_while(served: Served) -> None:
    pull = await served.opened()
    served.say(1, "stranger", "Hello")
    for _ in range(3):
        assert not (await served.forge.reviews(pull)).remarks[0].trusted
    assert served.server.count("GET", served.role_of_stranger) == 1
    served.let_write("stranger")
    served.clock.by += LASTS
    assert (await served.forge.reviews(pull)).remarks[0].trusted


async def test_a_pull_request_of_another_form_is_garbled_and_no_crash(served: Served) -> None:
    rows: tuple[Any, ...] = (
        None, [], "text", 7, {}, {"number": "1", "iid": "1"},
        {"number": 1, "iid": 1, "head": {"sha": 7}, "base": [], "sha": ["x"], "source_branch": "b"},
    )  # fmt: skip
    for row in rows:
        served.server.route("GET", f"{served.pulls}/1", answers(row))
        with pytest.raises(GarbledError):
            await served.forge.pull(1)


async def test_a_head_that_moves_while_merging_is_stopped_by_the_server(served: Served) -> None:
    pull = await served.opened()
    await served.pull(1)
    shown = served.shown(1)
    await served.commit("agent/a", shared="newer")
    served.server.route("GET", f"{served.pulls}/1", answers(shown))
    result = await served.try_merge(pull)
    assert not result.merged
    assert "another commit" in result.reason
    assert await served.merged_text() == "base"


async def test_drafts_and_closed_ones_and_lost_ones_are_not_merged(served: Served) -> None:
    draft = await served.opened(title=f"{served.draft} not yet")
    assert draft.draft
    assert "draft" in (await served.try_merge(draft)).reason
    served.served.pulls[1].title = "Now"
    await served.forge.close_pull(1)
    assert "closed" in (await served.try_merge(draft)).reason
    del served.served.pulls[1]
    assert "request 1 no longer exists" in (await served.try_merge(draft)).reason
    method, path = served.merge_request
    assert served.server.count(method, f"{served.pulls}/1{path}") == 0


async def test_trouble_of_the_server_while_merging_is_no_refusal(served: Served) -> None:
    pull = await served.opened()
    method, path = served.merge_request
    served.server.route(method, f"{served.pulls}/1{path}", fails(502))
    with pytest.raises(UnreachableError):
        await served.try_merge(pull)


# --- without any server ---------------------------------------------------------------------------

PAGE = "https://git.example/team/app"
NUMBERS = {
    "gitea": {
        f"{PAGE}/pulls/3": 3, f"{PAGE}/pulls/3/files?x=1": 3, f"{PAGE}/pulls/3#issuecomment-9": 3,
        f"{PAGE}/pulls/": None,
    },
    "gitlab": {
        f"{PAGE}/-/merge_requests/3": 3, f"{PAGE}/-/merge_requests/3/diffs?tab=1": 3,
        f"{PAGE}/-/merge_requests/3#note_7": 3, f"{PAGE}/merge_requests/3": 3,
        f"{PAGE}/-/merge_requests/": None, f"{PAGE}X/-/merge_requests/3": None,
        "https://elsewhere.example/team/app/-/merge_requests/3": None,
    },
    "github": {
        f"{PAGE}/pull/3": 3, f"{PAGE}/pull/3/files?w=1#top": 3, f"{PAGE}/pull/3x": None,
    },
}  # fmt: skip
"""What each forge's pages of pull requests are called."""
REFS = {
    "3": 3, "#3": 3, "!3": 3, " #3 ": 3, "": None, "x3": None, "3a": None, "-1": None,
    "not found": None, f"{PAGE}/issues/3": None, "https://elsewhere.example/team/app/pulls/3": None,
    "https://elsewhere.example/team/app/pull/3": None,
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
async def test_a_number_is_read_from_refs_and_urls_of_this_repository_alone(name: str) -> None:
    async def sign() -> dict[str, str]:
        return {}

    forge = forge_kind(name).make(
        Connection(
            repo="team/app", api=PAGE, web_url="https://git.example", sign=sign, now=lambda: 0.0
        )
    )
    refs = {**REFS, **NUMBERS[name]}
    assert {ref: forge.number_of(ref) for ref in refs} == refs
    await forge.aclose()
