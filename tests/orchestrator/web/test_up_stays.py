"""`up` stays while somebody decides in its pages, and ends soon after."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.orchestrator.loopkit import ASK, DONE, PATIENCE, SETTINGS, Live, until
from tests.orchestrator.web.pages.browsing import HTML

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.orchestrator.loopkit import World

STAYS = "all loops rest, and decisions wait"
_LINK = re.compile(r"(http://\S+)/login\?token=(\S+)")
_GUARD = re.compile(r'name="csrf" value="([0-9a-f]+)"')


class Person:
    """Somebody who is signed in, or not yet."""

    def __init__(self, client: httpx.Client, token: str) -> None:
        self.client, self._token, self._guard = client, token, ""

    def sign_in(self) -> None:
        sent = {"link": self._token, "name": "Ada", "next": "/"}
        assert self.client.post("/login", data=sent).status_code == 303
        found = _GUARD.search(self.client.get("/").text)
        assert found is not None
        self._guard = found[1]

    def send(self, path: str, **fields: str) -> None:
        answer = self.client.post(path, data={"csrf": self._guard, **fields})
        assert answer.status_code == 303, answer.text

    def sees(self, path: str, words: str) -> None:
        until(lambda: words in self.client.get(path).text, words)


@contextmanager
def _up(world: World, *args: str) -> Generator[tuple[Live, Person]]:
    """Run `up`, and hold the last loop until somebody has signed in."""
    with Live(world, ("up", *args), {}) as live:
        until(lambda: _LINK.search(live.err), "a link")
        found = _LINK.search(live.err)
        assert found is not None
        with httpx.Client(
            base_url=found[1], headers=HTML, timeout=PATIENCE, trust_env=False
        ) as client:
            yield live, Person(client, found[2])


def _held(world: World, *then: object) -> list[object]:
    """Return the steps of an agent that waits until `_let_go`."""
    return [{"wait_file": {"path": str(world.folder / "go"), "s": PATIENCE}}, *then]


def _let_go(world: World) -> None:
    (world.folder / "go").touch()


WORK = ({"write": {"path": "a.txt", "text": "a\n"}}, {"commit": "Work"}, DONE)


@pytest.mark.timeout(240)
def test_up_stays_for_who_decides_in_its_pages_runs_what_follows_and_ends(world: World) -> None:
    asks = {"attempts": {"1": _held(world, ASK), "default": [*WORK]}}
    plan = world.plan_of({"Q": asks, "D": _held(world, *WORK)})
    with _up(world, plan) as (live, person):
        person.sign_in()
        _let_go(world)
        until(lambda: STAYS in live.err, "it says that it stays")
        person.send("/t/Q/answer", text="Blue")
        person.sees("/t/Q", "Ready to review")
        person.send("/t/D/guide", text="Once more")
        until(lambda: person.client.get("/t/D/attempts/2").is_success, "a second attempt")
        person.sees("/t/D", "Ready to review")
        for task in ("Q", "D"):
            person.send(f"/t/{task}/reject", why="Not wanted")
        assert live.process.wait(PATIENCE) == 0
    assert live.err.count(STAYS) == 1


def test_up_ends_when_its_pages_were_not_used_for_the_time_of_the_setting(world: World) -> None:
    world.settings(f"{SETTINGS}stay_for_pages = 1.0\n")
    with _up(world, world.plan_of({"Q": _held(world, ASK)})) as (live, person):
        person.sign_in()
        with person.client.stream(
            "GET", "/ui/events?view=board", headers={"accept": "text/event-stream"}
        ):
            _let_go(world)
            # A page that is merely open is no use of it, nor is what it asks for by itself.
            until(lambda: _ended_meanwhile(live, person), "it ends")
        assert live.process.returncode == 3


def _ended_meanwhile(live: Live, person: Person) -> bool:
    try:
        person.client.get("/ui/board", headers={"x-loopwright-unasked": "1"})
    except httpx.TransportError:
        return live.process.poll() is not None
    return False


def test_up_ends_at_once_where_nobody_is_signed_in_or_nobody_is_to_stay(world: World) -> None:
    with _up(world, world.plan_of({"Q": _held(world, ASK)})) as (live, _):
        _let_go(world)
        assert live.process.wait(PATIENCE) == 3
    (world.folder / "go").unlink()
    world.call("reject", "Q", "--why", "again")
    plan = world.plan_of({"N": _held(world, ASK)}, name="other")
    with _up(world, plan, "--no-stay") as (live, person):
        person.sign_in()
        _let_go(world)
        assert live.process.wait(PATIENCE) == 3
    assert STAYS not in live.err


def test_ctrl_c_ends_up_while_it_stays(world: World) -> None:
    with _up(world, world.plan_of({"D": _held(world, *WORK)})) as (live, person):
        person.sign_in()
        _let_go(world)
        until(lambda: STAYS in live.err, "it says that it stays")
        live.process.send_signal(signal.SIGINT)
        assert live.process.wait(PATIENCE) == 0
