"""What an earlier runner left is found, however hard it is to see."""

from __future__ import annotations

import itertools

import pytest

from runtime import proc_table
from runtime.proc_tree import Table
from runtime.processes import leftovers
from runtime.processes.leftovers import Remnant
from tests.runtime.process_fixtures import GRACE, Stage


@pytest.mark.parametrize(("hides", "is_found"), [(0, True), (1, True), (2, False)])
async def test_who_hides_while_all_are_read_and_rests_while_it_is_watched_for_is_found_then(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, hides: int, *, is_found: bool
) -> None:
    process = await stage.sh("exec sleep 60")
    read, looks = proc_table.read_table, itertools.count()

    def table() -> Table:
        rows = read().rows.values()
        hidden = process.identity.pid if next(looks) < hides else None
        return Table(row for row in rows if row.pid != hidden)

    monkeypatch.setattr(proc_table, "read_table", table)
    monkeypatch.setattr(leftovers, "_glimpse", lambda *_: None)
    assert (process.identity.pid in Remnant(process.identity).find()) is is_found
    await process.stop(GRACE)
