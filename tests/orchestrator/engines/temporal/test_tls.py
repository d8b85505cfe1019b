"""The server is reached by TLS, by a certificate and a key, and says no in one sentence."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.settings import Settings
from orchestrator.engines.temporal.connection import ServerError, facts_of
from tests.orchestrator.engines.temporal.test_commands import Machines, done_by
from tests.orchestrator.engines.temporal.tls_front import Authority, front, on_the_wire

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(400)
KEY = "test0120120120120"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def known(authority: Authority, address: str, **more: str) -> dict[str, str]:
    """Return the settings by which a machine of this authority reaches a server."""
    certificate, key = authority.certificate("machine")
    return {
        "temporal_address": address,
        "temporal_tls_ca": str(authority.ca),
        "temporal_tls_cert": str(certificate),
        "temporal_tls_key": str(key),
        **more,
    }


def test_a_task_is_done_by_machines_that_reach_the_server_by_tls(
    tmp_path: Path, authority: Authority, temporal_address: str
) -> None:
    machines = Machines(tmp_path, temporal_address)
    world = machines.world
    plan = world.plan_of({"T001": done_by("T001")})
    with front(authority, temporal_address) as end:
        more = {"temporal_api_key_env": "OUR_KEY"}
        settings = known(authority, end.address, **more)
        machines.env |= {f"LOOPWRIGHT_{name.upper()}": each for name, each in settings.items()}
        machines.env["OUR_KEY"] = KEY
        with machines.worker("a") as worker:
            with machines.coordinator(plan) as up:
                machines.has_ended(up)
            worker.signal(signal.SIGTERM)
            machines.has_ended(worker, 143)
        assert on_the_wire(f"Bearer {KEY}") in end.heard
    assert machines.rows()["T001"]["state"] == "done"
    assert KEY not in machines.logs()


REFUSED = {
    "no certificate": "if it asks for a certificate, set temporal_tls_cert",
    "another authority": "correct temporal_tls_ca, by which its certificate is checked",
    "no tls": "correct temporal_address and temporal_tls",
}


@pytest.mark.parametrize("case", REFUSED)
async def test_who_is_not_known_is_told_what_to_correct(
    sdk: None, authority: Authority, tmp_path: Path, temporal_address: str, case: str
) -> None:
    del sdk
    with front(authority, temporal_address) as end:
        told: dict[str, Any] = known(authority, end.address)
        if case == "no certificate":
            del told["temporal_tls_cert"], told["temporal_tls_key"]
        elif case == "another authority":
            told["temporal_tls_ca"] = str(Authority(tmp_path / "other").ca)
        else:
            told = {"temporal_address": end.address}
        with pytest.raises(ServerError) as refused:
            await facts_of(Settings.model_validate(told), {})
    assert f"no Temporal server answers at {end.address} (" in str(refused.value)
    assert REFUSED[case] in str(refused.value)


def test_a_key_that_the_server_refuses_is_told_in_a_sentence_without_the_key(
    tmp_path: Path, authority: Authority, temporal_address: str
) -> None:
    machines = Machines(tmp_path, temporal_address)
    with front(authority, refuses=f"Request unauthorized: {KEY}") as end:
        settings = known(authority, end.address, temporal_api_key_env="OUR_KEY")
        machines.env |= {f"LOOPWRIGHT_{name.upper()}": each for name, each in settings.items()}
        machines.env["OUR_KEY"] = KEY
        with machines.clone("a").live("worker", "--name", "a", **machines.env) as live:
            machines.has_ended(live, 2)
        (said,) = live.err.splitlines()
    assert f"the server at {end.address} refuses" in said
    assert "temporal_api_key_env" in said
    assert KEY not in said
