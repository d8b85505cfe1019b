"""Reading commands beside a live runner, and the approval of summaries."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from lifecycle.machine.states import AwaitingHuman, Completed
from lifecycle.paths import Paths
from lifecycle.plan import Task
from orchestrator.cli.main import main
from tests.orchestrator.filled import SETTINGS, agent_of, loop_of, make_repository
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    import pytest

    from lifecycle.engine.engine import LocalEngine

DEADLINE = 30.0
TASK = Task(id="T001", title="Talk")


def talk(gate: Path) -> dict[str, list[dict[str, object]]]:
    """Speak, wait for a file, speak again; twice."""
    return {
        "1": [{"say": "one"}, {"wait_file": f"{gate}.1"}, {"say": "two"}, {"exit": 1}],
        "2": [
            {"say": "three"},
            {"wait_file": f"{gate}.2"},
            {"breakpoint": {"type": "task_complete", "summary": "said all"}},
        ],
    }


class Told:
    """What the commands in other threads have printed so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self.out, self.err = capsys, "", ""

    async def until(self, text: str) -> None:
        await until(lambda: text in self.read(), f"{text!r} is told")

    def read(self) -> str:
        out, err = self._capsys.readouterr()
        self.out, self.err = self.out + out, self.err + err
        return self.out


@asynccontextmanager
async def live(
    repo: Path, *, steps: dict[str, list[dict[str, object]]], review: bool = False
) -> AsyncIterator[tuple[LocalEngine, asyncio.Task[object]]]:
    """Run a loop in this process, and end it whatever happens."""
    settings = SETTINGS.model_copy(update={"review_summaries": review})
    loop = loop_of(repo, settings=settings)
    async with loop.opened() as engine:
        run = asyncio.create_task(engine.run(agent_of(repo, "T001", steps), TASK))
        try:
            yield engine, run
        finally:
            await loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)


async def comes_to(engine: LocalEngine, fits: Callable[[object], bool]) -> None:
    async def there() -> bool:
        record = await engine.shared.store.get("agent-T001")
        return record is not None and fits(record.work)

    await until(there, "its lifecycle is so")


async def test_logs_and_events_are_followed_through_the_attempts_to_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo, gate = make_repository(tmp_path / "repo"), tmp_path / "gate"
    told = Told(capsys)
    async with live(repo, steps=talk(gate)) as (engine, run):
        log = Paths.of(repo).log("agent-T001", 1)
        await comes_to(engine, lambda _: log.exists())
        place = ["agent-T001", "--repo", str(repo)]
        following = [
            asyncio.create_task(asyncio.to_thread(main, [name, *place, "--follow"]))
            for name in ("logs", "events")
        ]
        await told.until("one\n")
        gate.with_suffix(".1").touch()
        await told.until("three\n")
        gate.with_suffix(".2").touch()
        async with asyncio.timeout(DEADLINE):
            await run
            # Following ends with the lifecycle; completed work waits for a person's word.
            assert await asyncio.to_thread(main, ["reject", *place]) == 0
            assert await asyncio.gather(*following) == [0, 0]
    text = told.read()
    lines = [line for line in text.splitlines() if line in ("one", "two", "three")]
    assert lines == ["one", "two", "three"]
    assert text.count("attempt 1 ended with error and exit code 1") == 1
    assert "verifying" not in text
    assert "-> rejected" in text
    assert "==> attempt 2" in told.err


async def test_a_summary_is_held_read_and_approved_beside_a_live_runner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo, gate = make_repository(tmp_path / "repo"), tmp_path / "gate"
    gate.with_suffix(".1").touch()
    gate.with_suffix(".2").touch()
    place = ["agent-T001", "--repo", str(repo)]
    async with live(repo, steps=talk(gate), review=True) as (engine, _):
        for attempt in (1, 2):
            await comes_to(
                engine,
                lambda work, wanted=attempt: (  # type: ignore[misc]  # bound to this round
                    isinstance(work, AwaitingHuman) and work.tally.attempt == wanted
                ),
            )
            assert await asyncio.to_thread(main, ["summary", *place]) == 0
            assert f"Summary for attempt {attempt}" in capsys.readouterr().out
            assert await asyncio.to_thread(main, ["show", *place, "--why"]) == 0
            assert f"review_summaries holds attempt {attempt}" in capsys.readouterr().out
            assert await asyncio.to_thread(main, ["summary", "approve", *place]) == 0
            assert "is approved" in capsys.readouterr().err
        await comes_to(engine, lambda work: isinstance(work, Completed))
