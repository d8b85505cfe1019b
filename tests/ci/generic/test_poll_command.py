"""The poll command: when it is asked, and what its answer may be."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from ci.events import CIEventType
from ci.interface import CIWatch
from ci.verdict import VerdictStatus
from ci.webhook_delivery import Hint
from tests.ci.contract import until
from tests.ci.generic.generic_world import WATCH, running
from tests.ci.ports import ShellCommands
from tests.ci.webhooks.inboxes import BRANCH, OTHER, SHA, check

if TYPE_CHECKING:
    from pathlib import Path


def prints(tmp_path: Path, body: object) -> str:
    answer = tmp_path / "answer.json"
    answer.write_text(body if isinstance(body, str) else json.dumps(body))
    return f"cat {shlex.quote(str(answer))}"


async def test_the_command_is_asked_at_once_and_then_more_and_more_rarely(tmp_path: Path) -> None:
    command = prints(tmp_path, {"name": "unit", "status": "running"})
    async with running(tmp_path, poll_command=command) as world:
        await world.provider.pushed(BRANCH, SHA)
        world.provider.watch(WATCH)
        pauses = []
        for asked in range(1, 10):
            await until(
                lambda asked=asked: (
                    len(world.commands.marks) == asked  # type: ignore[misc]
                    and world.clock.next_instant() is not None
                )
            )
            due = world.clock.next_instant()
            assert due is not None
            pauses.append(round(due - world.clock.now(), 3))
            world.clock.advance(due - world.clock.now())
        assert pauses[:4] == [10.0, 15.0, 22.5, 33.75]
        assert pauses[-1] == 120.0
        prints(tmp_path, [{"name": "unit", "status": "failed", "log": "the sum is wrong"}])
        assert await world.provider.take(Hint(sha=SHA)) == ("agent-T1",)
        assert await world.status() is VerdictStatus.RED
        assert (await world.told())[-1] == (CIEventType.BUILD_FAILURE, SHA)


async def test_what_is_green_is_not_asked_after_again(tmp_path: Path) -> None:
    command = prints(tmp_path, {"name": "unit", "status": "passed"})
    async with running(tmp_path, poll_command=command) as world:
        world.provider.watch(WATCH)
        await until(lambda: world.clock.next_instant() is not None)
        assert await world.status() is VerdictStatus.GREEN
        await world.provider.take(Hint(sha=SHA))
        world.clock.advance(700)
        await until(lambda: world.clock.next_instant() is not None)
        assert len(world.commands.marks) == 1


async def test_many_waits_for_one_commit_are_one_question(tmp_path: Path) -> None:
    command = prints(tmp_path, {"name": "unit", "status": "running"})
    async with running(tmp_path, poll_command=command) as world:
        for number in range(5):
            world.provider.watch(CIWatch(key=f"agent-{number}", branch=BRANCH, sha=SHA))
        await until(lambda: world.clock.next_instant() is not None)
        assert len(world.commands.marks) <= 2


async def test_the_commit_and_the_branch_reach_the_command_as_they_are(tmp_path: Path) -> None:
    evil = f"a'; touch {tmp_path}/pwned; echo '\"$(touch {tmp_path}/pwned)`touch {tmp_path}/pwned`"
    command = f'printf %s "$BRANCH" > {tmp_path}/branch; printf %s "$SHA" > {tmp_path}/sha'
    # The attack works where the branch is put into the command itself.
    await ShellCommands().run(
        f"echo '{evil}'", cwd=tmp_path, log=tmp_path / "log", timeout=10, mark="m"
    )
    assert (tmp_path / "pwned").exists()
    (tmp_path / "pwned").unlink()
    async with running(tmp_path, poll_command=command) as world:
        world.provider.watch(CIWatch(key="a", branch=evil, sha=SHA))
        await until(lambda: world.clock.next_instant() is not None)
    assert (tmp_path / "branch").read_text() == evil
    assert (tmp_path / "sha").read_text() == SHA
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo no token >&2; exit 3", "ended with 3. no token"),
        ("echo hello", "printed no checks"),
        ('echo \'{"name": "unit", "status": "sideways"}\'', "sideways"),
        ("echo '[1]'", "not a JSON object"),
        ("head -c 2000000 /dev/zero", "more than"),
    ],
)
async def test_a_command_that_fails_is_a_trouble_until_it_works(
    tmp_path: Path, command: str, said: str
) -> None:
    flag = tmp_path / "mended"
    command = f"if test -e {flag}; then exit 0; fi; {command}"
    async with running(tmp_path, poll_command=command) as world:
        world.provider.watch(WATCH)
        await until(lambda: world.clock.next_instant() is not None)
        [trouble] = world.provider.troubles()
        assert said in trouble.text
        assert trouble.since == world.clock.now()
        flag.touch()
        await world.provider.take(Hint(sha=SHA))
        assert world.provider.troubles() == ()


async def test_words_beside_the_answer_do_not_spoil_it(tmp_path: Path) -> None:
    command = "echo loading >&2; " + prints(tmp_path, check("passed"))
    async with running(tmp_path, poll_command=command) as world:
        world.provider.watch(WATCH)
        await until(lambda: world.clock.next_instant() is not None)
        assert await world.status() is VerdictStatus.GREEN
        assert list((tmp_path / "polls").iterdir()) == []


async def test_an_answer_about_another_commit_is_none(tmp_path: Path) -> None:
    command = prints(tmp_path, [check("passed", OTHER)])
    async with running(tmp_path, poll_command=command) as world:
        world.provider.watch(WATCH)
        await until(lambda: world.clock.next_instant() is not None)
        assert await world.status() is VerdictStatus.NONE
        assert await world.status(OTHER) is VerdictStatus.NONE


async def test_a_command_that_runs_is_ended_with_the_provider(tmp_path: Path) -> None:
    async with running(tmp_path, poll_command="exec sleep 600") as world:
        world.provider.watch(WATCH)
        await until(lambda: bool(world.commands.alive))
    assert world.commands.alive == {}
