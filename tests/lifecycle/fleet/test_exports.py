"""What `lifecycle.fleet` exports is all that a spawn needs, and is loaded when it is used."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import lifecycle.fleet
import lifecycle.fleet.spawner
import lifecycle.fleet.supervisor

if TYPE_CHECKING:
    from pathlib import Path

TEN_LINES = """
import asyncio
from lifecycle.fleet import AgentDefinition, AgentSpawner, CommandAgent, ObservationOptions

async def main():
    async with AgentSpawner() as spawner:
        echo = AgentDefinition(name="echo", runs=CommandAgent(command=("/bin/echo", "hello")))
        instance = await spawner.spawn(echo)
        async for event in spawner.observe(instance):
            print(type(event).__name__)
        print(open(instance.details["log"]).read(), end="")

asyncio.run(main())
"""


def test_every_name_is_there_and_no_other() -> None:
    for name in lifecycle.fleet.__all__:
        assert getattr(lifecycle.fleet, name).__name__ == name
    assert set(lifecycle.fleet.__all__) == set(lifecycle.fleet._MODULE_OF)
    assert set(lifecycle.fleet.__all__) <= set(dir(lifecycle.fleet))
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        lifecycle.fleet.Nobody  # noqa: B018  # what is refused


def test_an_import_loads_nothing_until_a_name_is_used() -> None:
    code = "import lifecycle.fleet, sys; print(*sys.modules)"
    loaded = subprocess.run(
        (sys.executable, "-c", code), check=True, capture_output=True, text=True
    ).stdout.split()
    assert "pydantic" not in loaded
    assert "lifecycle.fleet.spawner.spawner" not in loaded


def test_ten_lines_and_one_import_spawn_a_program(tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-c", TEN_LINES),
        cwd=tmp_path,
        env={"TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["AgentTerminatedEvent", "hello"]
    assert done.stderr == ""
    assert not list(tmp_path.glob("loopwright-*"))


def test_one_class_per_idea_and_each_bears_its_public_name() -> None:
    from lifecycle.fleet.api import instances  # noqa: PLC0415  # read beside its alias

    assert lifecycle.fleet.spawner.AgentState is lifecycle.fleet.InstanceState
    assert instances.AgentState is lifecycle.fleet.InstanceState
    assert repr(lifecycle.fleet.InstanceState.READY) == "<InstanceState.READY: 'ready'>"
    policy = lifecycle.fleet.supervisor.RestartPolicy
    assert policy is lifecycle.fleet.supervisor.SupervisorPolicy
    assert policy.__name__ == "SupervisorPolicy"
