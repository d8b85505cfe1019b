"""An issue shows that a task is worked on, once, whatever is lost and whoever else labels it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from ci.errors import MissingError, RefusedError
from ci.forge.merge_rules import Rules
from ci.forge.upkeep import issues as upkeep
from ci.interface import CIWatch
from ci.issues import IssueReference, IssueStage, IssueStanding
from tests.ci.contract import until
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.forge_server import fails, raw
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.github.github_world import EmulatedWorld
from tests.ci.gitlab.gitlab_world import GitLabWorld
from tests.ci.served_git import BASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.ci.forge.forge_world import ForgeWorld
    from tests.ci.forge_server import Asked, Reply
    from tests.ci.github.emulated import Emulated

BRANCH = "agent/a"
WORKED_ON, RESTS, OVER = IssueStage.WORKED_ON, IssueStage.RESTS, IssueStage.OVER
GIVEN_UP = "It was given up, and nobody works on it now."


@pytest.fixture(params=["gitea", "gitlab", "github"])
async def forge(
    request: pytest.FixtureRequest, emulated: Emulated, tmp_path: Path
) -> AsyncIterator[ForgeWorld]:
    async with contextlib.AsyncExitStack() as stack:
        folder = tmp_path / "forge"
        if request.param == "github":
            running: Any = EmulatedWorld.running(folder, emulated, pushes=False)
        else:
            kind: type[Any] = GiteaWorld if request.param == "gitea" else GitLabWorld
            running = kind.running(folder, pushes=False)
        yield await stack.enter_async_context(running)


@pytest.fixture
async def world(forge: ForgeWorld, tmp_path: Path) -> AsyncIterator[RemoteWorld]:
    world = RemoteWorld(forge, tmp_path / "state", rules=Rules(checks_grace=0))
    await world.start()
    yield world
    await world.aclose()


def standing(issue: int | str, stage: IssueStage = WORKED_ON, **more: Any) -> IssueStanding:
    facts = {"key": "agent-a.b1", "issue": f"{issue}", "task_id": "T1", "title": "Add", **more}
    return IssueStanding(stage=stage, branch=BRANCH, **facts)


async def told(world: RemoteWorld, told: IssueStanding) -> None:
    """Tell the provider, and wait until the issue is in line with it."""
    world.provider.follow_issue(told)
    await done(world, told.key, stage=told.stage, ending=told.ending)


async def done(world: RemoteWorld, key: str = "agent-a.b1", **facts: str) -> None:
    async def is_done() -> bool:
        kept = (await world.documents.all(f"ci.{world.provider.name}.issues")).get(key, {})
        return bool(kept.get("done")) and facts.items() <= kept["standing"].items()

    await until(is_done, "the issue")


# --- what each forge does ---------------------------------------------------------------------


async def test_an_issue_is_read_commented_on_labelled_and_closed(forge: ForgeWorld) -> None:
    issues, which = forge.forge.issues, IssueReference(await forge.new_issue("bug"))
    assert issues is not None
    assert (await issues.issue(which)).open
    assert await issues.find_comment(which, "<!-- m -->") is None
    made = await issues.comment(which, "Begun <!-- m -->")
    await issues.comment(which, "Another <!-- m -->")
    assert await issues.find_comment(which, "<!-- m -->") == made
    await issues.edit_comment(which, made, "Ended <!-- m -->")
    await issues.add_labels(which, ["in progress", "agent's"])
    assert set((await issues.issue(which)).labels) == {"bug", "in progress", "agent's"}
    for _ in range(2):
        await issues.remove_label(which, "in progress")
    assert set((await issues.issue(which)).labels) == {"bug", "agent's"}
    for _ in range(2):
        await issues.close(which)
    seen = await forge.issue(which.number)
    assert (seen.is_open, seen.said) == (False, ("Ended <!-- m -->", "Another <!-- m -->"))
    assert await issues.hindrance() == ""
    with pytest.raises(MissingError):
        await issues.issue(IssueReference(9999))


def test_a_reference_is_of_this_forge_or_of_none(forge: ForgeWorld) -> None:
    place = forge.forge.place
    host, _, ours = place.partition("/")
    address = f"http://{place}/-/issues/7?x=1#note_3"
    for ref in ("7", "#7", f"{ours}#7", address, f"http://{host}/{ours}/issues/7"):
        assert forge.forge.issue_of(ref) == IssueReference(7), ref
    other = forge.forge.issue_of(f"http://{host}/other/thing/issues/7")
    assert other == IssueReference(7, "other/thing") == forge.forge.issue_of("other/thing#7")
    assert forge.forge.issue_of("https://elsewhere.test/o/r/issues/7") is None


# --- what is done to one ----------------------------------------------------------------------


async def test_one_comment_says_that_it_is_worked_on_and_how_that_ended(
    forge: ForgeWorld, world: RemoteWorld
) -> None:
    number = await forge.new_issue()
    await told(world, standing(number))
    await told(world, standing(number, RESTS))
    await world.restart()
    await told(world, standing(number))
    (said,) = (await forge.issue(number)).said
    assert "working on this issue as task `T1` (`Add`)" in said
    await told(world, standing(number, OVER, ending=GIVEN_UP))
    (said,) = (await forge.issue(number)).said
    assert GIVEN_UP in said
    await told(world, standing(number))
    (said,) = (await forge.issue(number)).said
    assert GIVEN_UP not in said


async def test_our_labels_are_on_while_it_is_worked_on_and_nobody_elses_go(
    forge: ForgeWorld, world: RemoteWorld
) -> None:
    world.rules = Rules(issue_labels=("bug", "in progress"), issue_comment=False)
    number = await forge.new_issue("bug")
    await told(world, standing(number))
    assert set((await forge.issue(number)).labels) == {"bug", "in progress"}
    await told(world, standing(number, key="agent-b.b2"))
    await told(world, standing(number, RESTS))
    assert set((await forge.issue(number)).labels) == {"bug", "in progress"}
    await world.restart()
    await told(world, standing(number, OVER, key="agent-b.b2"))
    seen = await forge.issue(number)
    assert (seen.labels, seen.said) == (("bug",), ())


async def test_a_label_that_a_person_took_off_stays_off(
    forge: ForgeWorld, world: RemoteWorld
) -> None:
    world.rules = Rules(issue_labels=("in progress",))
    number = await forge.new_issue()
    await told(world, standing(number))
    await forge.change_issue(number)
    await told(world, standing(number, number=3))
    assert (await forge.issue(number)).labels == ()
    await told(world, standing(number, OVER))
    assert world.logged == []


async def test_a_pull_request_that_names_no_issue_is_linked_in_the_comment(
    forge: ForgeWorld, world: RemoteWorld
) -> None:
    number = await forge.new_issue()
    await world.commit(BRANCH, shared="a")
    create = world.provider.create_pull_request
    silent = await create(branch=BRANCH, base=BASE, title="Do it", body="Done.")
    await told(world, standing(number, number=silent.number))
    (said,) = (await forge.issue(number)).said
    assert silent.url in said
    await told(world, standing(number))
    assert (await forge.issue(number)).said == (said,)
    await world.commit("agent/b", shared="b")
    body = f"Done.\n\nCloses {world.provider.issue_name(f'#{number}')}"
    speaking = await create(branch="agent/b", base=BASE, title="Do it", body=body)
    await told(world, standing(number, key="agent-b.b2", number=speaking.number))
    assert speaking.url not in (await forge.issue(number)).said[1]


async def test_the_merge_closes_it_where_the_forge_does_not_and_only_once(
    forge: ForgeWorld, world: RemoteWorld
) -> None:
    world.rules = Rules(issue_close=True, checks_grace=0)
    number = await forge.new_issue()
    sha = await world.commit(BRANCH, shared="a")
    pull = await world.provider.create_pull_request(branch=BRANCH, base=BASE, title="Do it")
    await told(world, standing(number, number=pull.number))
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=sha, number=pull.number))
    await forge.merge(pull.number)
    await world.polled(pull.number)

    async def is_closed() -> bool:
        return not (await forge.issue(number)).is_open

    await until(is_closed, "the closing")
    await done(world)
    await forge.change_issue(number, is_open=True)
    await told(world, standing(number, OVER))
    await world.restart()
    await told(world, standing(number, OVER, ending=GIVEN_UP))
    assert (await forge.issue(number)).is_open


async def test_without_the_setting_nothing_is_closed_said_or_asked(
    forge: ForgeWorld, world: RemoteWorld
) -> None:
    world.rules = Rules(issue_comment=False)
    number = await forge.new_issue()
    world.provider.follow_issue(standing(number))
    await world.restart()
    assert await world.documents.all(f"ci.{world.provider.name}.issues") == {}
    assert await forge.issue(number) == (True, (), ())


async def test_what_ended_before_anybody_was_told_is_not_told(
    forge: ForgeWorld, world: RemoteWorld
) -> None:
    number = await forge.new_issue()
    world.provider.follow_issue(standing(number, OVER, ending=GIVEN_UP))
    await world.restart()
    assert (await forge.issue(number)).said == ()


async def test_a_refusal_is_reported_once_and_stops_nothing_else(world: RemoteWorld) -> None:
    world.rules = Rules(issue_labels=("in progress",))
    await told(world, standing(9999))
    await told(world, standing(9999, RESTS))
    await world.restart()
    await told(world, standing(9999))
    assert [event for event, _ in world.logged] == ["issue_refused"] * 2
    whats = {str(fields["what"]) for _, fields in world.logged}
    assert whats == {"comment", "labels"}
    assert {fields["agent_id"] for _, fields in world.logged} == {"agent-a"}


async def test_an_issue_of_another_host_is_refused(world: RemoteWorld) -> None:
    await told(world, standing("https://elsewhere.test/o/r/issues/7"))
    ((event, fields),) = world.logged
    assert event == "issue_refused"
    assert "is not at" in str(fields["reason"])


# --- what only a served forge shows -----------------------------------------------------------


@pytest.fixture
async def gitea(tmp_path: Path) -> AsyncIterator[GiteaWorld]:
    async with GiteaWorld.running(tmp_path / "gitea", pushes=False) as gitea:
        yield gitea


async def test_a_comment_whose_answer_is_lost_is_looked_for_and_not_written_again(
    gitea: GiteaWorld, tmp_path: Path
) -> None:
    number = await gitea.new_issue()
    path = f"{gitea.at}/issues/{number}/comments"

    def lose(asked: Asked) -> Reply:
        gitea.served.issues[number].comments.append({"id": 7, "body": asked.json()["body"]})
        return raw(b"")

    heal = gitea.server.overlay()
    gitea.server.route("POST", path, lose)
    world = RemoteWorld(gitea, tmp_path / "state")
    await world.start()
    world.provider.follow_issue(standing(number))
    await until(lambda: gitea.server.count("POST", path), "the request")
    heal()
    await world.restart()
    await done(world)
    assert len((await gitea.issue(number)).said) == 1
    assert gitea.server.count("POST", path) == 1
    await told(world, standing(number, OVER, ending=GIVEN_UP))
    assert GIVEN_UP in (await gitea.issue(number)).said[0]
    await world.aclose()


async def test_a_forge_that_is_down_is_asked_again_until_it_answers(
    gitea: GiteaWorld, tmp_path: Path
) -> None:
    number = await gitea.new_issue()
    path = f"{gitea.at}/issues/{number}/comments"
    heal = gitea.server.overlay()
    gitea.server.route("GET", path, fails(502))
    world = RemoteWorld(gitea, tmp_path / "state")
    await world.start()
    world.provider.follow_issue(standing(number))
    await until(lambda: gitea.server.count("GET", path), "the request")
    heal()
    await done(world)
    assert len((await gitea.issue(number)).said) == 1
    assert world.logged == []
    await world.aclose()


async def test_a_locked_issue_is_labelled_all_the_same(gitea: GiteaWorld, tmp_path: Path) -> None:
    number = await gitea.new_issue()
    gitea.served.issues[number].locked = True
    world = RemoteWorld(gitea, tmp_path / "state", rules=Rules(issue_labels=("in progress",)))
    await world.start()
    await told(world, standing(number))
    assert (await gitea.issue(number)) == (True, ("in progress",), ())
    assert [fields["what"] for _, fields in world.logged] == ["comment"]
    await world.aclose()


async def test_a_forge_that_closes_it_by_the_words_is_waited_for(
    gitea: GiteaWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CLOSES_WITHIN", 3600.0)
    number = await gitea.new_issue()
    world = RemoteWorld(gitea, tmp_path / "state", rules=Rules(issue_close=True, checks_grace=0))
    await world.start()
    sha = await world.commit(BRANCH, shared="a")
    body = f"Closes #{number}"
    create = world.provider.create_pull_request
    pull = await create(branch=BRANCH, base=BASE, title="Do it", body=body)
    await told(world, standing(number, number=pull.number))
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=sha, number=pull.number))
    await gitea.merge(pull.number)
    await world.polled(pull.number)
    documents = world.documents

    async def is_noted() -> bool:
        return bool((await documents.all("ci.gitea.issues"))["agent-a.b1"]["merged_at"])

    await until(is_noted, "the merge")
    assert (await gitea.issue(number)).is_open
    await world.aclose()  # nobody would look again, so it is closed now
    assert not (await gitea.issue(number)).is_open


async def test_our_own_merge_closes_it_too(gitea: GiteaWorld, tmp_path: Path) -> None:
    number = await gitea.new_issue()
    rules = Rules(issue_close=True, issue_comment=False, require_ci=False, checks_grace=0)
    world = RemoteWorld(gitea, tmp_path / "state", rules=rules)
    await world.start()
    await world.commit(BRANCH, shared="a")
    pull = await world.provider.create_pull_request(branch=BRANCH, base=BASE, title="Do it")
    await told(world, standing(f"{gitea.repo}#{number}", number=pull.number))
    merged = await world.provider.merge(pull.number)
    assert merged.merged, merged.reason
    await until(lambda: not gitea.served.issues[number].open, "the closing")
    assert (await gitea.issue(number)).said == ()
    await world.aclose()


@pytest.mark.parametrize(
    ("kind", "present", "wanted"),
    [(GitLabWorld, "flow::ready", "flow::doing"), (GiteaWorld, "flow/ready", "flow/doing")],
)
async def test_a_label_that_would_replace_another_one_is_not_put_on(
    kind: type[Any], present: str, wanted: str, tmp_path: Path
) -> None:
    async with kind.running(tmp_path / "forge") as forge:
        number = await forge.new_issue(present)
        if kind is GiteaWorld:
            forge.served.labels = [
                {"id": key, "name": name, "exclusive": True}
                for key, name in ((8, present), (9, wanted))
            ]
        with pytest.raises(RefusedError, match=f"would replace {present}"):
            await forge.forge.issues.add_labels(IssueReference(number), [wanted])
        assert (await forge.issue(number)).labels == (present,)
