"""A changed value is what `dataclasses.replace` would have made, and the one before stays."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from lifecycle.machine.states import BackingOff, Blocked, Signal, Tally, counted
from lifecycle.machine.values import changed


def test_a_changed_value_equals_a_replaced_one_and_leaves_the_old() -> None:
    before = Tally(attempt=3, retry_count=2, signature="error: boom")

    after = changed(before, attempt=4, signature="")

    assert after == replace(before, attempt=4, signature="")
    assert type(after) is Tally
    assert before == Tally(attempt=3, retry_count=2, signature="error: boom")


def test_every_field_is_carried_over() -> None:
    word = Signal(type="blocked", blocked_on=("T002",), reason="waits")
    before = Blocked(tally=Tally(attempt=2), since=1.0, until=9.0, word=word, head="abc", ci="red")

    after = changed(before, until=10.0)

    assert {field.name for field in fields(before)} == vars(after).keys()
    assert replace(after, until=9.0) == before


def test_a_name_of_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="Tally has no atempt"):
        changed(Tally(), atempt=2)


def test_counting_changes_the_tally_alone() -> None:
    before = BackingOff(tally=Tally(attempt=2), until=5.0, why="error")
    assert counted(before, attempt=3) == BackingOff(tally=Tally(attempt=3), until=5.0, why="error")
