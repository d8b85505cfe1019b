"""`make bench` finds all that it measures with."""

from __future__ import annotations

import importlib

import pytest

from bench.run import SCRIPTS
from bench.transcripts import PROGRAMS, recorded


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_measuring_script_is_there(name: str) -> None:
    assert callable(importlib.import_module(f"bench.{name}").measure)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_recorded_run_that_a_script_repeats_is_there(program: str) -> None:
    run = recorded(program)
    assert run.head
    assert run.body
    assert run.tail
