"""`loopwright costs`: what was spent, what nobody knows, and what is left of each budget."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from lifecycle.machine.states import Accepted, Queued, Reason, Rejected
from lifecycle.paths import Paths
from lifecycle.plan import Allowance, PlanMark, Task
from lifecycle.record import AgentLifecycle, Spending, Transaction
from lifecycle.store.lock import RunnerLock
from orchestrator.control import costs
from tests.orchestrator.loopkit import of_store

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import World

DAY = 86_400.0
NOON = datetime(2027, 3, 10, 12, tzinfo=UTC).timestamp()
NO = Rejected(reason=Reason.PERSON, text="no")
HOSTILE = "opus \x1b[31m\u202e"


def spending(agent_id: str, attempt: int = 1, **fields: Any) -> Spending:
    return Spending(
        **{
            "agent_id": agent_id,
            "attempt": attempt,
            "birth": "b1",
            "at": present(),
            "plan": "night",
            "program": "claude",
            **fields,
        }
    )


def present() -> float:
    """Return the instant that the command sees."""
    return time.time()  # noqa: TID251  # the command asks the real clock


def write(repo: Path, *spendings: Spending, **facts: Any) -> None:
    """Write what attempts used, as a runner does."""

    async def commit(store: SqliteStore) -> None:
        for each in spendings:
            known = await store.get(each.agent_id)
            record = known or AgentLifecycle(
                agent_id=each.agent_id, task="Work", facts=facts, birth=each.birth
            )
            await store.commit(Transaction(record=record, spending=each))

    of_store(repo, commit)


def settle(repo: Path, **works: Any) -> None:
    """Put lifecycles into states."""

    async def commit(store: SqliteStore) -> None:
        for agent_id, work in works.items():
            record = await store.get(agent_id)
            assert record is not None
            record.work = work
            record.derive()
            await store.commit(Transaction(record=record))

    of_store(repo, commit)


def row(at: float, **fields: Any) -> dict[str, Any]:
    return {
        "agent_id": "a", "birth": "b1", "plan": "night", "program": "claude", "model": "opus",
        "at": at, "tokens": 10, "cost_usd": 0.5, "seconds": 60.0,
        **fields,
    }  # fmt: skip


def test_where_nothing_ran_nothing_was_spent(world: World) -> None:
    assert world.call("costs").stdout == "No attempt ended here yet, so nothing was spent.\n"
    told = world.json("costs")
    assert (told["lines"], told["budgets"], told["total"]["attempts"]) == ([], [], 0)


def test_sums_say_what_is_known_and_what_is_not(world: World) -> None:
    write(
        world.repo,
        spending("a", 1, tokens=1_200_000, cost_usd=3.2, seconds=7500, model=HOSTILE),
        spending("a", 2, tokens=4_331, seconds=60, model=HOSTILE),
        spending("b", 1, program="codex", tokens=500, plan="day"),
        spending("c", 1, program="my-agent", plan=""),
    )

    shown = world.call("costs", "--by", "program").stdout.splitlines()

    assert [line.split("  ") for line in squeezed(shown)] == [
        ["PROGRAM", "ATTEMPTS", "TOKENS", "COST", "TIME"],
        ["my-agent", "1", "unknown", "unknown", "0 s"],
        ["codex", "1", "500", "unknown", "0 s"],
        ["claude", "2", "1,204,331", "at least $3.20", "2 h 6 min"],
        ["total", "4", "at least 1,204,831", "at least $3.20", "2 h 6 min"],
    ]
    assert "\x1b" not in world.call("costs", "--by", "model").stdout
    told = world.json("costs", "--by", "plan")
    assert {line["name"]: line["cost_usd"] for line in told["lines"]} == {
        "night": 3.2,
        "day": None,
        "run": None,
    }
    assert told["total"]["attempts_with_cost"] == 1


def squeezed(lines: list[str]) -> list[str]:
    """Return lines with each gap between columns as two blanks."""
    return ["  ".join(part.strip() for part in line.split("  ") if part.strip()) for line in lines]


def test_what_ended_before_is_left_out_and_pointed_to(world: World) -> None:
    write(world.repo, spending("a", at=present() - 20 * DAY, tokens=5))

    assert "No attempt ended since 7d; try" in world.call("costs").stdout
    assert world.json("costs", "--since", "30d")["total"]["tokens"] == 5


def test_lifecycles_that_ended_are_counted_with_success_and_duration(world: World) -> None:
    at = present()
    ends = {"a": Accepted(commit="c"), "b": Accepted(commit="c"), "c": NO, "old": NO, "d": Queued()}

    async def commit(store: SqliteStore) -> None:
        for number, (name, work) in enumerate(ends.items()):
            end = at - 30 * DAY if name == "old" else at
            record = AgentLifecycle(agent_id=name, task="Work", work=work)
            record.created_at, record.updated_at = end - 60.0 * (number + 1), end
            await store.commit(Transaction(record=record))

    of_store(world.repo, commit)

    assert world.json("costs")["lifecycles"] == {
        "ended": 3,
        "accepted": 2,
        "success_rate": pytest.approx(2 / 3),
        "mean_seconds": pytest.approx(120.0),
    }
    shown = world.call("costs").stdout
    assert shown.endswith("3 ended, 2 of them accepted (67%); 2 min each on average\n")
    assert world.json("costs", "--since", "40d")["lifecycles"]["ended"] == 4


def test_what_is_left_of_each_budget_is_shown(world: World) -> None:
    world.settings("budget_attempts = 3\nplan_budget_usd = 10.0\nday_budget_tokens = 1000\n")
    write(
        world.repo,
        spending("a", 1, tokens=600, cost_usd=4.0),
        spending("a", 2, tokens=500),
        spending("a", 3, tokens=500, at=present() - 3 * DAY),
        plan=PlanMark(name="night").model_dump(mode="json"),
    )

    shown = squeezed(world.call("costs").stdout.split("\n\n")[1].splitlines())

    assert shown[0] == "BUDGET OF  NAME  USED  OF  LEFT"
    assert shown[1].endswith("1,100 tokens  1,000 tokens  used up")
    assert shown[2:] == [
        "plan  night  at least $4.00  $10.00  at most $6.00",
        "lifecycle  a  3 attempts  3 attempts  used up",
    ]


def test_what_nobody_told_counts_as_nothing_and_the_sums_say_so(world: World) -> None:
    world.settings("plan_budget_usd = 10.0\nplan_budget_tokens = 3000\n")
    write(
        world.repo,
        spending("a", 1, tokens=1000, cost_usd=1.2),
        spending("a", 2),
        plan=PlanMark(name="night").model_dump(mode="json"),
    )

    lines, limits = world.call("costs", "--by", "program").stdout.split("\n\n")
    assert squeezed(lines.splitlines())[1] == "claude  2  at least 1,000  at least $1.20  0 s"
    assert squeezed(limits.splitlines())[1:] == [
        "plan  night  at least 1,000 tokens  3,000 tokens  at most 2,000 tokens",
        "plan  night  at least $1.20  $10.00  at most $8.80",
    ]
    told = world.json("costs", "--by", "program")
    assert [(each["used"], each["left"], each["exact"]) for each in told["budgets"]] == [
        (1000, 2000, False),
        (1.2, pytest.approx(8.8), False),
    ]


def test_an_attempt_of_a_moment_took_no_hours_to_speak_of(world: World) -> None:
    world.settings("budget_hours = 8.0\n")
    write(world.repo, spending("a", 1, seconds=0.0004))

    assert "lifecycle  a  0 hours  8.0 hours  8.0 hours" in squeezed(
        world.call("costs").stdout.splitlines()
    )


def test_it_works_beside_a_live_runner_and_says_what_it_cannot_see(world: World) -> None:
    write(world.repo, spending("a", tokens=5))
    lock = RunnerLock(world.repo / ".loopwright", who="a test")
    lock.acquire()
    try:
        told = world.call("costs")
    finally:
        lock.release()

    assert "A runner is alive" in told.stderr
    assert json.loads(world.call("costs", "--json").stdout)["total"]["tokens"] == 5


def test_looking_changes_no_byte(world: World) -> None:
    write(world.repo, spending("a", tokens=5))
    database = world.repo / ".loopwright" / "state.db"
    before = database.read_bytes()

    world.call("costs")

    assert database.read_bytes() == before


@pytest.mark.parametrize("wrong", ["soon", "0d", "-3d", "7", "2027-13-01", "99999999d"])
def test_a_time_that_is_none_is_refused(world: World, wrong: str) -> None:
    told = world.call("costs", f"--since={wrong}", code=2)

    assert f"--since '{wrong}' is not a valid time; use days (7d)" in told.stderr


def test_days_are_calendar_days_and_hours_are_not() -> None:
    east = timezone(timedelta(hours=13))

    assert costs.instant_of("1d", NOON, UTC) == NOON - DAY / 2
    assert costs.instant_of("7d", NOON, UTC) == NOON - 6.5 * DAY
    assert costs.instant_of("1d", NOON, east) == NOON - 3600
    assert costs.instant_of("36h", NOON, east) == NOON - 1.5 * DAY
    assert costs.instant_of("2027-03-10", NOON, UTC) == NOON - DAY / 2


def test_attempts_are_added_up_by_the_local_day_they_ended_on() -> None:
    zone = ZoneInfo("Pacific/Auckland")
    rows = [row(NOON), row(NOON + 3600), row(NOON - DAY)]

    lines = costs.grouped(sorted(rows, key=lambda each: each["at"]), "day", zone)

    assert [(line.name, line.attempts) for line in lines] == [("2027-03-10", 1), ("2027-03-11", 2)]


def test_budgets_of_plan_and_task_come_before_the_settings(tmp_path: Path) -> None:
    task = Task(id="T1", budget=Allowance(hours=2.0)).model_dump(mode="json")
    marks = [
        PlanMark(name="night", budget=Allowance(tokens=each)).model_dump(mode="json")
        for each in (5, 40)
    ]
    used = {"tokens": 10, "cost_usd": 0.5, "seconds": 60.0}
    ended = [
        spending("a", 1, at=NOON, **used),
        spending("a", 1, birth="b0", at=NOON - 400 * DAY, **used),
        spending("a", 2, at=NOON, plan="other", **used),
    ]
    write(tmp_path, *ended, task=task, plan=marks[0])
    write(tmp_path, spending("b", birth="b9", at=NOON), task=task, plan=marks[1])
    write(tmp_path, spending("c", at=NOON, plan=""))
    settle(tmp_path, b=Accepted(commit="c" * 40))
    chosen = {"plan_budget_tokens": 7, "day_budget_usd": 9.0, "budget_hours": 1.0}

    parts = costs.budgets(Paths.of(tmp_path).database, chosen, NOON, UTC)

    told = [(part.scope, part.name, part.what, part.budget, part.used) for part in parts]
    assert told == [
        ("day", "2027-03-10", "usd", 9.0, 1.0),
        ("plan", "night", "tokens", 40, 20),
        ("plan", "other", "tokens", 7, 10),
        ("plan", "run", "tokens", 7, 0),
        ("lifecycle", "a", "hours", 2.0, 2 / 60),
        ("lifecycle", "c", "hours", 1.0, 0.0),
    ], "the budget of a plan is the one it was last begun with; an accepted task has none"
    only = costs.budgets(Paths.of(tmp_path).database, {}, NOON, UTC)
    assert [(part.scope, part.name, part.budget) for part in only] == [
        ("plan", "night", 40), ("lifecycle", "a", 2.0),
    ], "what has no budget of its own is not named where the settings have none"  # fmt: skip
