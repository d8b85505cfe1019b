"""Whole nights in fast motion: what agents do, and what they run into, ends as it has to.

The last tests show that the rules see what they are there for: each breaks one rule of the loop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle import drive, projection
from lifecycle.admission.budgets import Accounts, BudgetVerdict
from lifecycle.admission.program_limits import ProgramLimits
from lifecycle.machine import events as on
from lifecycle.machine.rules import capture_and_verify, endings
from lifecycle.machine.states import Verifying, counted
from lifecycle.machine.table import TABLE
from tests.lifecycle.night.night import NightPlay
from tests.lifecycle.night.rules import Rules, label_of
from tests.lifecycle.night.script import BAD, GOOD, MIDNIGHT, NEVER, TALK, draw

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import State
    from lifecycle.machine.step import Step

SEEDS = (3,)
USES_UP_THE_DAY = 2
SHORT, FEW = 1, 18
NIGHTS = range(1, 9)
"""Nights with few tasks, for rules that are broken on purpose."""


async def _wrong(folder: Path, seed: int) -> list[str]:
    play = await NightPlay(folder / "world", draw(seed, FEW)).through()
    return Rules(play, await play.kept()).broken()


@pytest.mark.parametrize("seed", SEEDS)
async def test_fifty_tasks_come_through_the_night_as_they_have_to(
    tmp_path: Path, seed: int
) -> None:
    play = await NightPlay(tmp_path / "world", draw(seed)).through()
    kept = await play.kept()
    assert Rules(play, kept).broken() == []
    assert len(kept) == 50
    assert len(play.lives) == 5, "four runners died"
    assert play.world.now > MIDNIGHT
    ends = {label_of(each.record) for each in kept.values()}
    assert ends >= {"completed", "dependency", "budget"}
    outcomes = {row.outcome for each in kept.values() for row in each.attempts}
    assert outcomes >= {"task_complete", "rate_limit", "overloaded", "hang", "crash", "gate_failed"}


async def test_what_the_budget_of_a_day_ended_goes_on_after_midnight(tmp_path: Path) -> None:
    play = await NightPlay(tmp_path / "world", draw(USES_UP_THE_DAY)).through()
    assert Rules(play, await play.kept()).broken() == []
    taken_up = {who for _, who, why in play.world.diary.resumed if why == "morning"}
    later = {ran.agent_id for ran in play.world.diary.runs if ran.began > MIDNIGHT}
    assert len(taken_up & later) > 3


def test_in_these_nights_everything_happens_that_agents_are_known_for() -> None:
    nights = [draw(seed) for seed in (*SEEDS, USES_UP_THE_DAY)]
    done = {deed.kind for night in nights for job in night.jobs for deed in job.deeds}
    assert done == {*GOOD, *BAD, *TALK, *NEVER}
    met = {(each.program, each.kind, each.named) for night in nights for each in night.troubles}
    for program in ("claude", "codex"):
        assert {(program, "rate_limit", True), (program, "rate_limit", False)} <= met
        assert {(program, "overloaded", False), (program, "network", False)} <= met
    assert ("claude", "auth", False) in met


async def test_a_short_night_goes_well_while_no_rule_is_broken(tmp_path: Path) -> None:
    assert await _wrong(tmp_path, SHORT) == []


# --- rules broken on purpose --------------------------------------------------------------------


def _limits_cost_a_retry(patch: pytest.MonkeyPatch) -> None:
    honest = endings._limited

    def charged(state: State, *args: Any) -> Step:
        return honest(counted(state, retry_count=state.tally.retry_count + 1), *args)

    patch.setattr(endings, "_limited", charged)


def _accounts_are_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Accounts, "verdict", lambda *args, **named: BudgetVerdict())  # noqa: ARG005  # its form


def _nobody_tells_of_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProgramLimits, "resting", lambda *args: ())  # noqa: ARG005  # its form


def _usage_is_lost(patch: pytest.MonkeyPatch) -> None:
    honest = projection.onto_books

    def poor(*args: Any) -> Any:
        spending = honest(*args)
        return None if spending is None else replace(spending, tokens=spending.tokens // 2)

    patch.setattr(drive, "onto_books", poor)


def _liars_are_believed(patch: pytest.MonkeyPatch) -> None:
    def judged(state: Verifying, event: on.GatesFinished, given: Policy) -> Step:
        return capture_and_verify.judged(state, replace(event, gates=()), given)

    key: tuple[type[State], type[on.Event]] = (Verifying, on.GatesFinished)
    patch.setitem(TABLE, key, replace(TABLE[key], decide=judged))


@pytest.mark.parametrize(
    ("breaks", "seen"),
    [
        (_limits_cost_a_retry, "retries are counted"),
        (_accounts_are_not_asked, "were used"),
        (_nobody_tells_of_limits, "knew of its limit"),
        (_usage_is_lost, "tokens are booked"),
        (_liars_are_believed, "it was ['gate_failed']"),
    ],
)
async def test_a_broken_rule_is_noticed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    breaks: Callable[[pytest.MonkeyPatch], None],
    seen: str,
) -> None:
    breaks(monkeypatch)
    wrong: list[str] = []
    for seed in NIGHTS:  # where a crash falls differs from night to night
        (folder := tmp_path / str(seed)).mkdir()
        wrong = await _wrong(folder, seed)
        if any(seen in each for each in wrong):
            return
    pytest.fail(f"not noticed in {len(NIGHTS)} nights: {wrong}")
