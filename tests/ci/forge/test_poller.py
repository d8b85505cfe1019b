"""When things are asked after, and that many of them stay within what a forge allows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ci.forge.poller import LONGEST, RECONCILE, Poller, PollResult, fresh
from ci.http.rate_limit import RateBudget
from lifecycle.clock import SteppedClock
from tests.ci.forge.scripted_forge import Scene, ScriptedForge, check, sha

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci.events import Check
    from ci.forge.protocol import BranchRules, ForgePull, Reviews

HOUR = 3600.0


# --- the pace of one thing --------------------------------------------------------------------


def test_the_schedule_is_ten_seconds_growing_by_half_up_to_two_minutes() -> None:
    pace, now, waits = fresh(0.0), 0.0, []
    for _ in range(9):
        pace = pace.after(now, 0.5)
        waits.append(pace.due - now)
        now = pace.due
    assert waits[:4] == pytest.approx([10.0, 15.0, 22.5, 33.75])
    assert waits[-1] == LONGEST


def test_no_wait_is_more_than_a_fifth_shorter_or_longer() -> None:
    assert fresh(0.0).after(0.0, 0.0).due == pytest.approx(8.0)
    assert fresh(0.0).after(0.0, 0.999999).due == pytest.approx(12.0, abs=0.01)


def test_what_rests_is_still_asked_after_every_ten_minutes() -> None:
    assert fresh(0.0).after(0.0, 0.5, rests=True).due == pytest.approx(RECONCILE)


def test_nobody_is_asked_before_they_answer_and_a_known_instant_is_not_missed() -> None:
    pace = fresh(0.0).after(0.0, 0.5)
    assert pace.not_after(4.0).due == 4.0
    assert pace.not_after(40.0).due == pytest.approx(10.0)
    assert pace.not_before(300.0).due == 300.0
    assert pace.not_before(None).due == pytest.approx(10.0)


# --- one timer for all ------------------------------------------------------------------------


class Asking:
    """A round that answers as it is told, and remembers what it was asked."""

    def __init__(self, clock: SteppedClock) -> None:
        self.clock = clock
        self.rounds: list[tuple[float, dict[str, bool]]] = []
        self.answer = PollResult()
        self.going = asyncio.Event()
        self.going.set()
        self.at_once = 0
        self.most_at_once = 0

    async def __call__(self, keys: Mapping[str, bool]) -> Mapping[str, PollResult]:
        self.rounds.append((self.clock.now() - 1_800_000_000.0, dict(keys)))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.going.wait()
        self.at_once -= 1
        return dict.fromkeys(keys, self.answer)


def poller_on(clock: SteppedClock, asking: Asking, budget: RateBudget | None = None) -> Poller:
    return Poller(
        asking,
        now=clock.now,
        call_at=clock.call_at,
        chance=lambda: 0.5,
        budget=lambda: budget or RateBudget(),
    )


async def step(clock: SteppedClock, poller: Poller, seconds: float) -> None:
    end = clock.now() + seconds
    await poller.through()
    while (due := clock.next_instant()) is not None and due <= end:
        clock.advance(due - clock.now())
        await poller.through()
    clock.advance(end - clock.now())


async def test_what_is_due_together_is_asked_in_one_round() -> None:
    clock = SteppedClock()
    asking = Asking(clock)
    poller = poller_on(clock, asking)
    for number in range(50):
        poller.add(f"a{number}")
    await step(clock, poller, 30)
    await poller.aclose()
    assert [(at, len(keys)) for at, keys in asking.rounds] == [(0.0, 50), (10.0, 50), (25.0, 50)]


async def test_two_rounds_never_overlap_and_a_hurry_meanwhile_is_not_lost() -> None:
    clock = SteppedClock()
    asking = Asking(clock)
    poller = poller_on(clock, asking)
    asking.going.clear()
    poller.add("a")
    await asyncio.sleep(0)
    poller.hurry("a")
    poller.hurry("a")
    asking.going.set()
    await poller.through()
    await poller.aclose()
    assert [keys for _, keys in asking.rounds] == [{"a": True}, {"a": True}]
    assert asking.most_at_once == 1


async def test_a_hurry_begins_the_schedule_anew_and_trusts_nothing() -> None:
    clock = SteppedClock()
    asking = Asking(clock)
    poller = poller_on(clock, asking)
    poller.add("a")
    await step(clock, poller, 100)
    poller.hurry("a")
    await step(clock, poller, 12)
    await poller.aclose()
    last = asking.rounds[-2:]
    assert [(at, keys) for at, keys in last] == [(100.0, {"a": True}), (110.0, {"a": False})]


async def test_a_defect_of_a_round_is_reported_and_asked_over() -> None:
    clock = SteppedClock()
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(type(context.get("exception")))
    )
    seen: list[float] = []

    async def fail(keys: Mapping[str, bool]) -> Mapping[str, PollResult]:
        del keys
        seen.append(clock.now())
        raise ArithmeticError

    poller = Poller(fail, now=clock.now, call_at=clock.call_at, chance=lambda: 0.5)
    poller.add("a")
    await step(clock, poller, 12)
    await poller.aclose()
    assert reported == [ArithmeticError, ArithmeticError]
    assert [at - seen[0] for at in seen] == [0.0, 10.0]


async def test_nothing_is_asked_after_the_end() -> None:
    clock = SteppedClock()
    asking = Asking(clock)
    poller = poller_on(clock, asking)
    poller.add("a")
    await poller.through()
    await poller.aclose()
    poller.hurry("a")
    clock.advance(1000)
    await asyncio.sleep(0)
    assert len(asking.rounds) == 1


# --- many, on one budget ----------------------------------------------------------------------


class Account:
    """What GitHub counts for one token: every answer that is not a 304."""

    def __init__(self, clock: SteppedClock, *, knows_etags: bool) -> None:
        self.clock, self.knows_etags = clock, knows_etags
        self.limit, self.used, self.resets_at = 5000, 0, clock.now() + HOUR
        self.refused = 0
        self.most = 0

    def spend(self, *, changed: bool) -> bool:
        if self.clock.now() >= self.resets_at:
            self.used, self.resets_at = 0, self.resets_at + HOUR
        if not changed and self.knows_etags:
            return False
        self.used += 1
        self.most = max(self.most, self.used)
        self.refused += self.used > self.limit
        return True


class MeteredForge(ScriptedForge):
    """Pays for every answer that differs from the last one, as a forge with ETags counts."""

    def __init__(self, account: Account) -> None:
        super().__init__()
        self.account = account
        self.seen: dict[object, object] = {}

    async def _pay(self, what: object, answer: object) -> None:
        changed = self.seen.get(what) != answer
        self.seen[what] = answer
        spent = self.account.spend(changed=changed)
        headers = {
            "x-ratelimit-limit": str(self.account.limit),
            "x-ratelimit-remaining": str(self.account.limit - self.account.used),
            "x-ratelimit-reset": str(int(self.account.resets_at)),
        }
        self.budget = self.budget.told(headers, self.account.clock.now(), counted=spent)

    async def checks(self, sha: str) -> tuple[Check, ...]:
        found = await super().checks(sha)
        await self._pay(("checks", sha), found)
        await self._pay(("statuses", sha), ())
        return found

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        found = await super().open_pulls()
        await self._pay("pulls", found)
        return found

    async def head(self, branch: str) -> str | None:
        found = await super().head(branch)
        await self._pay(("head", branch), found)
        return found

    async def branch_rules(self, branch: str) -> BranchRules:
        found = await super().branch_rules(branch)
        await self._pay(("rules", branch), found)
        return found

    async def pull(self, number: int) -> ForgePull | None:
        found = await super().pull(number)
        await self._pay(("pull", number), found)
        return found

    async def reviews(self, pull: ForgePull) -> Reviews:
        found = await super().reviews(pull)
        await self._pay(("reviews", pull.number), found)
        await self._pay(("comments", pull.number), found)
        return found


async def hours(scenes: list[Scene], clock: SteppedClock, how_many: float) -> None:
    """Let time pass for all of them, a few seconds at a time."""
    for _ in range(int(how_many * HOUR / 5)):
        clock.advance(5)
        for scene in scenes:
            work = scene.provider._work
            assert work is not None
            while work.poller._task is not None:  # noqa: ASYNC110  # a turn of the loop, no time
                await asyncio.sleep(0)


@pytest.mark.parametrize("knows_etags", [True, False])
async def test_five_hundred_waits_on_twenty_repositories_stay_within_an_hours_budget(
    tmp_path: Path,
    knows_etags: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    clock = SteppedClock()
    account = Account(clock, knows_etags=knows_etags)
    scenes = []
    for _ in range(20):
        scene = Scene(tmp_path)
        scene.clock, scene.forge = clock, MeteredForge(account)
        scene.provider = scene._new()
        await scene.provider.start()
        scenes.append(scene)
        for number in range(1, 26):
            head = f"{number:040x}"
            scene.forge.open(number, head=head, branch=f"agent/{number}")
            scene.forge.by_sha[head] = (check("unit", "pending"), check("lint", "pending"))
            scene.watch(key=f"a{number}", branch=f"agent/{number}", sha=head, number=number)
    for half_hour in range(4):
        await hours(scenes, clock, 0.5)
        for scene in scenes:
            # Some of them go on: a check passes, a push comes, a base moves.
            scene.forge.heads["main"] = f"{half_hour + 1:040x}"
            for number in range(half_hour, 26, 4):
                if number in scene.forge.pulls:
                    scene.forge.by_sha[scene.forge.pulls[number].head_sha] = (
                        check("unit"),
                        check("lint", "pending" if half_hour % 2 else "passed"),
                    )
                    scene.forge.change(number)
    for scene in scenes:
        await scene.provider.aclose()
    assert account.refused == 0
    assert account.most <= (account.limit if knows_etags else account.limit * 0.95)
    told = sum(scene.told.count("pr_checks_passed") for scene in scenes)
    assert told >= 20 * 6, "what changed was noticed all the same"


async def test_a_wake_is_answered_at_once_though_the_budget_is_low(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.forge.budget = RateBudget(5000, 510, scene.clock.now() + HOUR, None, 10)
    await scene.provider.start()
    scene.forge.open(head=sha("1"))
    scene.watch()
    await scene.quiet()
    assert scene.forge.asked["pull"] == 1
    await scene.provider.aclose()
