"""`doctor` and the engine over many machines, with a real server and without one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from temporalio.runtime import Runtime

from lifecycle.settings import Settings
from orchestrator.doctor import engine
from orchestrator.engines.temporal.connection import ServerError, facts_of
from tests.orchestrator.engines.temporal.dev_server import dev_server, free_port
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.orchestrator.loopkit import World

WHAT = {"engine", "clocks", "remote", "variables"}


@pytest.fixture(scope="module", autouse=True)
def _sdk() -> None:
    """Start what the SDK keeps to the end of the process."""
    Runtime.default()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with dev_server(tmp_path_factory.mktemp("server")) as address:
        chosen = Settings(engine="temporal", temporal_address=address)

        def ready() -> bool:
            with suppress(ServerError):
                return asyncio.run(facts_of(chosen, {})).has_namespace
            return False

        wait_until(ready, "the server answers", 60.0)
        yield address


@pytest.fixture
def remote(world: World) -> Path:
    bare = world.folder / "bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", world.repo, bare], check=True)
    world.git("remote", "add", "origin", str(bare))
    return bare


def findings(world: World, settings: str, code: int | None = None) -> list[tuple[str, str, str]]:
    """Return level, subject and words of what doctor says about the engine."""
    world.settings(settings)
    checks = world.json("doctor", code=code)["checks"]
    found = [each for each in checks if each["what"] in WHAT]
    return [(each["level"], each["what"], f"{each['found']} — {each['mend']}") for each in found]


def test_nothing_is_said_and_loaded_where_it_is_not_chosen(world: World) -> None:
    assert findings(world, "") == []
    asked = (
        "import sys; from orchestrator.cli.main import main; main(['doctor']); "
        "sys.exit(any(name.partition('.')[0] == 'temporalio' for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", asked], cwd=world.repo, capture_output=True, check=True)


def test_a_server_is_asked_for_version_namespace_and_time(
    world: World, remote: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = f'engine = "temporal"\ntemporal_address = "{server}"\n'
    (answer, push) = findings(world, f'{chosen}pass_env = ["HOME"]\n')
    assert answer[:2] == ("ok", "engine")
    assert "Temporal server 1." in answer[2]
    assert f"at {server}, namespace default" in answer[2]
    assert push[:2] == ("ok", "remote")
    heads = ["git", "-C", str(remote), "for-each-ref", "refs/heads/agent"]
    assert subprocess.run(heads, check=True, capture_output=True).stdout == b""

    monkeypatch.setattr(engine, "MOST_SKEW", -1.0)
    other = f'{chosen}temporal_namespace = "elsewhere"\npass_env = ["OUR_TOKEN"]\n'
    (answer, _, variables) = findings(world, other, code=2)
    assert answer[0] == "bad"
    assert "has no namespace elsewhere — create it with `temporal operator" in answer[2]
    assert variables[0] == "warn"
    assert "OUR_TOKEN, not set here" in variables[2]
    clocks = findings(world, chosen)[1]
    assert clocks[:2] == ("warn", "clocks")


def test_without_a_server_one_sentence_says_so(world: World) -> None:
    address = f"127.0.0.1:{free_port()}"
    chosen = f'engine = "temporal"\ntemporal_address = "{address}"\n'
    (answer, push) = findings(world, chosen, code=2)
    assert answer[0] == "bad"
    assert f"no Temporal server answers at {address}" in answer[2]
    assert answer[2].endswith("start it, or correct temporal_address and temporal_tls")
    assert push[0] == "bad"
    assert "there is no remote origin" in push[2]


def test_what_lacks_or_cannot_be_read_is_said_without_asking_any_server(world: World) -> None:
    missing = world.folder / "missing.pem"
    chosen = (
        'engine = "temporal"\ntemporal_address = "127.0.0.1:1"\n'
        f'temporal_tls_ca = "{missing}"\ntemporal_tls_cert = "{missing}"\n'
    )
    found = findings(world, chosen, code=2)
    assert [each[1] for each in found] == ["engine", "engine", "engine", "remote"]
    assert f"temporal_tls_ca: {missing} cannot be read" in found[0][2]
    assert "needs temporal_tls_key, which goes with temporal_tls_cert" in found[2][2]


def test_a_remote_that_refuses_is_named(world: World, remote: Path) -> None:
    remote.rename(remote.with_name("gone.git"))
    found = findings(world, 'engine = "temporal"\n', code=2)
    assert found[0][2].startswith('engine = "temporal" needs temporal_address')
    assert found[1][:2] == ("bad", "remote")
    assert "bare.git" in found[1][2]
