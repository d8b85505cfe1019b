"""Whole nights in fast motion: what agents do, and what they run into, ends as it has to.

The last tests show that the oracle sees what it is there for: each breaks one rule of the loop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle import draft, project
from lifecycle.accounts import Accounts, Verdict
from lifecycle.admission import Board
from lifecycle.machine import attempts, breaker, chain, endings, policy, step
from lifecycle.machine import events as on
from lifecycle.machine.states import Verifying, counted
from lifecycle.machine.table import TABLE
from lifecycle.places import Places
from tests.lifecycle.night import NightPlay
from tests.lifecycle.night_oracle import Oracle, label_of
from tests.lifecycle.night_script import BAD, GOOD, MIDNIGHT, NEVER, TALK, draw

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import State
    from lifecycle.machine.step import Step

SEEDS = (3, 11)
USES_UP_THE_DAY = 2
SHORT, OTHER, FEW = 1, 2, 18
NIGHTS = range(1, 9)
"""Nights with few tasks, for rules that are broken on purpose."""


async def _wrong(folder: Path, seed: int) -> list[str]:
    play = await NightPlay(folder / "world", draw(seed, FEW)).through()
    return Oracle(play, await play.kept()).judge()


@pytest.mark.parametrize("seed", SEEDS)
async def test_fifty_tasks_come_through_the_night_as_they_have_to(
    tmp_path: Path, seed: int
) -> None:
    play = await NightPlay(tmp_path / "world", draw(seed)).through()
    kept = await play.kept()
    assert Oracle(play, kept).judge() == []
    assert len(kept) == 50
    assert len(play.lives) == 5, "four runners died"
    assert play.world.now > MIDNIGHT
    ends = {label_of(each.record) for each in kept.values()}
    assert ends >= {"completed", "dependency", "budget"}
    outcomes = {row.outcome for each in kept.values() for row in each.attempts}
    assert outcomes >= {"task_complete", "rate_limit", "overloaded", "hang", "crash", "gate_failed"}


async def test_what_the_budget_of_a_day_ended_goes_on_after_midnight(tmp_path: Path) -> None:
    play = await NightPlay(tmp_path / "world", draw(USES_UP_THE_DAY)).through()
    assert Oracle(play, await play.kept()).judge() == []
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


@pytest.mark.parametrize("seed", [SHORT, OTHER])
async def test_a_short_night_goes_well_while_no_rule_is_broken(tmp_path: Path, seed: int) -> None:
    assert await _wrong(tmp_path, seed) == []


# --- rules broken on purpose --------------------------------------------------------------------


def _limits_cost_a_retry(patch: pytest.MonkeyPatch) -> None:
    honest = endings._limited

    def charged(state: State, *args: Any) -> Step:
        return honest(counted(state, retry_count=state.tally.retry_count + 1), *args)

    patch.setattr(endings, "_limited", charged)


def _reset_times_are_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(endings, "after_reset", lambda policy, at, reset_at: (at + reset_at) / 2)  # noqa: ARG005  # its form


def _waits_are_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "delay", lambda policy, nth: 0.0)  # noqa: ARG005  # its form


def _waits_are_doubled(patch: pytest.MonkeyPatch) -> None:
    honest = policy.delay
    patch.setattr(step, "delay", lambda given, nth: 2 * honest(given, nth))


def _the_breaker_never_opens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(breaker, "is_stuck", lambda tally, policy: False)  # noqa: ARG005  # its form


def _accounts_are_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Accounts, "verdict", lambda *args, **named: Verdict())  # noqa: ARG005  # its form


def _nobody_tells_of_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Board, "resting", lambda *args: ())  # noqa: ARG005  # its form


def _limits_are_forgotten_with_the_runner(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*args: object) -> None:
        del args

    patch.setattr(Board, "learn", nothing)


def _places_are_without_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Places, "__init__", _roomy(Places.__init__))


def _roomy(honest: Callable[..., None]) -> Callable[..., None]:
    def made(self: Places, limit: Callable[[], int]) -> None:
        honest(self, lambda: 10 * limit())

    return made


def _usage_is_lost(patch: pytest.MonkeyPatch) -> None:
    honest = project.onto_books

    def poor(*args: Any) -> Any:
        spending = honest(*args)
        return None if spending is None else replace(spending, tokens=spending.tokens // 2)

    patch.setattr(draft, "onto_books", poor)


def _liars_are_believed(patch: pytest.MonkeyPatch) -> None:
    def judged(state: Verifying, event: on.GatesFinished, given: Policy) -> Step:
        return attempts.judged(state, replace(event, gates=()), given)

    key: tuple[type[State], type[on.Event]] = (Verifying, on.GatesFinished)
    patch.setitem(TABLE, key, replace(TABLE[key], decide=judged))


def _the_chain_is_read_backwards(patch: pytest.MonkeyPatch) -> None:
    honest = chain.chosen
    patch.setattr(
        chain,
        "chosen",
        lambda tally, given: honest(tally, replace(given, programs=given.programs[::-1])),
    )


@pytest.mark.parametrize(
    ("breaks", "seen"),
    [
        (_limits_cost_a_retry, "retries are counted"),
        (_reset_times_are_passed_over, "before its own wait was over"),
        (_waits_are_skipped, "too early"),
        (_waits_are_doubled, "too late"),
        (_the_breaker_never_opens, "too early"),
        (_accounts_are_not_asked, "too much"),
        (_nobody_tells_of_limits, "knew of its limit"),
        (_limits_are_forgotten_with_the_runner, "knew of its limit"),
        (_places_are_without_number, "alive at once"),
        (_usage_is_lost, "tokens are booked"),
        (_liars_are_believed, "it was 'gate_failed'"),
        (_the_chain_is_read_backwards, "was free"),
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
