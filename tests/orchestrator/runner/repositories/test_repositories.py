"""Names of several repositories, and when a broken one is tried again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import RepositoryBusyError, StoreDamagedError
from orchestrator.errors import ConfigError
from orchestrator.runner import repositories
from orchestrator.runner.repositories import (
    RepositoryKeeper,
    RepositoryStatus,
    ServedRepository,
    names_of,
    trouble_of,
)
from orchestrator.runner.signals import SignalHandler
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_name_is_the_folders_and_one_that_is_added_renames_none() -> None:
    first, second, odd = Path("/a/app"), Path("/b/app"), Path("/c/my app!")
    before = names_of([first, odd])
    after = names_of([first, odd, second, first])
    assert list(before) == ["app", "my-app"]
    assert before.items() <= after.items()
    [name] = after.keys() - before.keys()
    assert name.startswith("app-")
    assert after[name] == second
    assert names_of([second, first]).keys() != after.keys(), "the first that is given keeps it"
    assert list(names_of([Path("/")])) == ["repository"]


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (RepositoryBusyError("another runner has it"), "locked"),
        (ConfigError("x"), "settings"),
        (StoreDamagedError("x"), "store"),
        (PermissionError(13, "Permission denied"), "failed"),
    ],
)
def test_trouble_is_told_by_its_kind(tmp_path: Path, problem: Exception, status: str) -> None:
    assert trouble_of(tmp_path, problem) == (status, str(problem))
    assert trouble_of(tmp_path / "gone", problem)[0] is RepositoryStatus.FOLDER


def test_a_defect_names_its_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int("defect")
    status, told = trouble_of(tmp_path, ZeroDivisionError("x").with_traceback(raised.tb))
    assert status is RepositoryStatus.FAILED
    assert "internal error: ZeroDivisionError" in told
    assert "test_repositories.py:" in told


async def test_a_broken_one_is_tried_again_and_again_until_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "FIRST_PAUSE", 0.01)
    signals, said, tries = SignalHandler(lambda _: None), list[str](), list[int]()
    it = ServedRepository("app", tmp_path)
    over = asyncio.Event()

    async def run(repository: ServedRepository) -> None:
        assert repository is it
        tries.append(len(tries))
        if len(tries) < 4:
            raise ConfigError(f"wrong, {len(tries) // 2}")
        it.status = RepositoryStatus.OK
        await over.wait()

    settled: list[Callable[[], None]] = []
    keeper = RepositoryKeeper(it, run, signals=signals, now=lambda: 0.0, tell=said.append)
    keeping = asyncio.create_task(keeper.keep(lambda: settled.append(over.clear)))
    await until(lambda: it.well and len(tries) == 4, "it is well again")
    assert said == ["app: wrong, 0; the others go on", "app: wrong, 1; the others go on"]
    signals.number = 15
    signals.came.set()
    over.set()
    await keeping
    assert it.status is RepositoryStatus.ENDED
    assert len(settled) == 4


async def test_one_whose_records_are_lost_waits_until_a_person_opens_it(tmp_path: Path) -> None:
    signals, tries = SignalHandler(lambda _: None), list[int]()
    it = ServedRepository("app", tmp_path)

    async def run(_: ServedRepository) -> None:
        tries.append(len(tries))
        raise StoreDamagedError("it was moved away; start again to begin with empty records")

    keeper = RepositoryKeeper(it, run, signals=signals, now=lambda: 0.0, tell=lambda _: None)
    keeping = asyncio.create_task(keeper.keep(lambda: None))
    await until(lambda: not it.well, "it broke")
    assert it.again_at is None
    assert len(tries) == 1
    it.anew.set()
    await until(lambda: len(tries) == 2 and not it.well, "it was opened once more")
    signals.came.set()
    await keeping
