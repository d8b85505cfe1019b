"""`lifecycle` itself exports what callers need, and loads none of it before it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import lifecycle

HOMES = {
    "Agent": "lifecycle.plan",
    "AgentLifecycle": "lifecycle.record",
    "AgentLifecycleLoop": "lifecycle.loop",
    "AgentSpawner": "lifecycle.fleet.spawner",
    "AgentState": "lifecycle.record",
    "ContextBuilder": "lifecycle.context",
    "ContextSnapshot": "lifecycle.context",
    "LifecycleManager": "lifecycle.fleet.manager",
    "LoopResult": "lifecycle.loop",
    "LoopResultType": "lifecycle.loop",
    "Plan": "lifecycle.plan",
    "SpawnRequest": "lifecycle.fleet.api.options",
    "Supervisor": "lifecycle.fleet.supervisor",
    "Task": "lifecycle.plan",
}


def _python(code: str) -> str:
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", HOMES)
def test_each_name_is_the_same_object_as_at_its_home(name: str) -> None:
    assert getattr(lifecycle, name) is getattr(import_module(HOMES[name]), name)


def test_all_names_are_exported_and_no_others() -> None:
    assert sorted(HOMES) == sorted(lifecycle.__all__)
    assert set(HOMES) <= set(dir(lifecycle))


def test_a_star_import_brings_all_of_them() -> None:
    told = _python("from lifecycle import *\nprint(sorted(set(globals()) - {'__builtins__'}))")
    assert all(repr(name) in told for name in HOMES)


def test_importing_the_package_alone_loads_nothing_of_it() -> None:
    told = _python(
        "import sys\nbefore = set(sys.modules)\nimport lifecycle\n"
        "print(*(set(sys.modules) - before))"
    )
    assert {name.split(".")[0] for name in told.split()} <= {"lifecycle", "importlib", "warnings"}
    assert "lifecycle." not in told


def test_an_unknown_name_is_refused_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'lifecycle' has no attribute 'Lop'"):
        getattr(lifecycle, "Lop")  # noqa: B009  # mypy knows that there is none
    with pytest.raises(ImportError):
        exec("from lifecycle import Lop")  # noqa: S102  # as a user would write it
