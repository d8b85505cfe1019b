"""The level container, and a level without a network, as spawned instances."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.fleet.api.instances import AgentInstance, InstanceState
from lifecycle.fleet.api.registry import AgentDefinition, AgentRequirements, CommandAgent
from lifecycle.fleet.errors import IsolationUnavailableError
from runtime.isolation.probe import probe
from runtime.isolation.sandbox import SandboxEngine
from tests.lifecycle.fleet.spawner_world import Stage, staged, until

if TYPE_CHECKING:
    from pathlib import Path


LOOK = 'cat "{secret}" > seen 2>/dev/null; echo hi > /dev/tcp/127.0.0.1/{port} && echo in > net'


def definition(command: tuple[str, ...], **requirements: Any) -> AgentDefinition:
    return AgentDefinition(
        name="sandboxed",
        runs=CommandAgent(command=command),
        requirements=AgentRequirements(**requirements),
    )


async def ran(stage: Stage, made: AgentDefinition, options: dict[str, Any]) -> AgentInstance:
    stage.spawner.registry.register(made)
    instance = await stage.spawner.spawn(
        stage.request_for(made, {**options}, workspace=str(stage.folder / "place"))
    )

    await until(lambda: stage.told.of("agent_terminated"))
    return await stage.now(instance.instance_id)


@pytest.mark.parametrize("level", ["process", "container"])
async def test_a_container_sees_its_workspace_and_no_network_and_a_process_sees_both(
    tmp_path: Path, level: str
) -> None:
    (tmp_path / "place").mkdir()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = LOOK.format(secret=secret, port=server.getsockname()[1])
        async with staged(tmp_path) as stage:
            made = definition(("bash", "-c", script), network=level == "process")
            if level == "container" and not probe(SandboxEngine.BUBBLEWRAP).works:
                stage.spawner.registry.register(made)
                with pytest.raises(IsolationUnavailableError):
                    await stage.spawner.spawn(
                        stage.request_for(made, {"isolation_level": "container"})
                    )
                return
            instance = await ran(stage, made, {"isolation_level": level})

    seen, net = tmp_path / "place" / "seen", tmp_path / "place" / "net"
    assert seen.read_text() == ("secret" if level == "process" else "")
    assert net.exists() is (level == "process")
    assert instance.state in (InstanceState.TERMINATED, InstanceState.FAILED)
    told = "may do what its user may" if level == "process" else "no network"
    assert told in instance.containment


async def test_a_level_that_cannot_be_given_is_refused_unless_a_weaker_one_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "place").mkdir()
    try:
        async with staged(tmp_path) as stage:
            made = definition(("/bin/sh", "-c", "exit 0"))
            stage.spawner.registry.register(made)
            with pytest.raises(IsolationUnavailableError, match="install bubblewrap"):
                await stage.spawner.spawn(stage.request_for(made, {"isolation_level": "container"}))
            assert stage.told.audit[-1][3] == "failed"

            options = {"isolation_level": "container", "allow_weaker": True}
            instance = await ran(stage, made, options)

            assert "Given instead: level process" in instance.containment
    finally:
        probe.cache_clear()
