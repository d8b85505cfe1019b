"""What is given, what is refused with reason and remedy, and what is weakened only when told to."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from runtime.errors import SandboxUnavailableError
from runtime.isolation.probe import EngineProbe, SandboxChoice, choose, probe
from runtime.isolation.sandbox import SandboxEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MISSING = {
    engine: EngineProbe(engine, reason=f"no {engine}", remedy=f"install {engine}")
    for engine in SandboxEngine
}
WORKING = {engine: EngineProbe(engine, f"/usr/bin/{engine.command}") for engine in SandboxEngine}


def machine(*works: SandboxEngine) -> Callable[[SandboxEngine, str], EngineProbe]:
    """Describe a machine by what works on it."""
    return lambda engine, _: (WORKING if engine in works else MISSING)[engine]


@pytest.mark.parametrize("engine", SandboxEngine)
def test_the_first_engine_that_works_is_taken(engine: SandboxEngine) -> None:
    later = tuple(SandboxEngine)[tuple(SandboxEngine).index(engine) :]
    chosen = choose("container", network=False, image="i", ask=machine(*later))
    assert chosen == SandboxChoice("container", network=False, engine=WORKING[engine], image="i")


def test_an_engine_that_is_named_is_not_replaced_by_another() -> None:
    ask = machine(SandboxEngine.BUBBLEWRAP)
    with pytest.raises(SandboxUnavailableError, match="no podman"):
        choose("container", engine=SandboxEngine.PODMAN, ask=ask)


def test_a_refusal_names_every_reason_and_every_remedy() -> None:
    with pytest.raises(SandboxUnavailableError) as caught:
        choose("container", ask=machine())
    for engine in SandboxEngine:
        assert f"no {engine}" in str(caught.value)
        assert f"install {engine}" in str(caught.value)


@pytest.mark.parametrize("network", [True, False])
def test_a_weaker_level_is_given_only_when_allowed_and_says_so(*, network: bool) -> None:
    ask = machine()
    with pytest.raises(SandboxUnavailableError):
        choose("container", network=network, ask=ask)
    given = choose("container", network=network, allow_weaker=True, ask=ask)
    assert (given.level, given.network, given.engine) == ("process", True, None)
    assert "no bubblewrap" in given.weaker
    assert "level process" in given.weaker
    assert ("with the network" in given.weaker) is not network


@pytest.mark.parametrize("level", ["none", "thread", "process"])
def test_without_a_sandbox_the_network_cannot_be_taken_away(level: str) -> None:
    with pytest.raises(SandboxUnavailableError):
        choose(level, network=False, ask=machine())
    given = choose(level, network=False, allow_weaker=True, ask=machine())
    assert (given.level, given.network) == (level, True)
    assert "with the network" in given.weaker


def test_level_process_without_a_network_takes_the_open_sandbox() -> None:
    given = choose("process", network=False, ask=machine(SandboxEngine.BUBBLEWRAP))
    assert given == SandboxChoice(
        "process", network=False, engine=WORKING[SandboxEngine.BUBBLEWRAP]
    )


@pytest.mark.parametrize("level", ["none", "thread", "process"])
def test_what_needs_no_sandbox_asks_no_engine(level: str) -> None:
    def never(engine: SandboxEngine, image: str) -> EngineProbe:
        raise AssertionError(engine, image)

    assert choose(level, ask=never) == SandboxChoice(level, network=True)


@pytest.mark.parametrize("engine", SandboxEngine)
def test_an_engine_that_is_not_installed_says_what_to_install(
    engine: SandboxEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = probe.__wrapped__(engine, "image")
    assert not found.works
    assert engine.command in found.reason
    assert f"install {engine}" in found.remedy


@pytest.mark.parametrize(
    ("says", "helps"),
    [
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        ("bwrap: No permissions to create a new namespace", "unprivileged_userns_clone"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "unmasked /proc"),
    ],
)
def test_an_engine_that_fails_says_what_would_help(
    says: str, helps: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(f'#!/bin/sh\necho "{says}" >&2\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    found = probe.__wrapped__(SandboxEngine.BUBBLEWRAP)
    assert not found.works
    assert says in found.reason
    assert helps in found.remedy


def test_this_machine_is_asked_by_making_a_sandbox() -> None:
    found = probe.__wrapped__(SandboxEngine.BUBBLEWRAP)
    assert found.works is not bool(found.reason)
    if shutil.which("bwrap") is None:
        assert not found.works
    if found.works:
        assert found.program == shutil.which("bwrap")


def test_a_container_without_an_image_is_refused() -> None:
    for engine in (SandboxEngine.PODMAN, SandboxEngine.DOCKER):
        found = probe.__wrapped__(engine)
        assert not found.works
        assert "image" in found.reason or "PATH" in found.reason
