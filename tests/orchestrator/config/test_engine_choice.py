"""The engine that settings or `--engine` choose: what lacks for it is said before anything runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lifecycle.settings import checked_settings
from orchestrator.errors import ConfigError
from orchestrator.runner import engine_choice
from orchestrator.runner.engine_choice import lacking, require_engine

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

ADDRESS = {"engine": "temporal", "temporal_address": "127.0.0.1:7233"}
LACKS = {
    "the address": ({"engine": "temporal"}, "needs temporal_address, the HOST:PORT"),
    "the key of a certificate": (
        {**ADDRESS, "temporal_tls_cert": "c.pem"},
        "needs temporal_tls_key, which goes with temporal_tls_cert",
    ),
    "the certificate of a key": (
        {**ADDRESS, "temporal_tls_key": "k.pem"},
        "needs temporal_tls_cert, which goes with temporal_tls_key",
    ),
    "the variable with the key": (
        {**ADDRESS, "temporal_api_key_env": "OUR_KEY"},
        "names OUR_KEY, which is not set here",
    ),
}


@pytest.mark.parametrize("case", LACKS)
def test_what_lacks_for_the_engine_is_named(case: str) -> None:
    given, said = LACKS[case]
    assert said in lacking(checked_settings(given), {})
    assert not lacking(checked_settings({**given, "engine": "local"}), {})


def test_the_sdk_is_asked_for_by_the_name_of_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = checked_settings({**ADDRESS, "temporal_api_key_env": "OUR_KEY"})
    assert not lacking(settings, {"OUR_KEY": "k"})
    monkeypatch.setattr(engine_choice, "PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match=r"pip install 'loopwright\[temporal\]'"):
        require_engine(settings, {"OUR_KEY": "k"})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('temporal_address = "https://x:7233"', "write HOST:PORT"),
        ('temporal_api_key_env = "ey.secret-key"', "the name of an environment variable"),
        ('temporal_namespace = "a b"', "1 to 63 letters"),
        ('labels = ["gpu", "a/b"]', "'a/b' is not a label"),
        ("lease = 1", "2 to 600"),
        ('engine = "postgres"', "temporal"),
    ],
)
def test_a_bad_value_is_refused_with_its_place(world: World, line: str, said: str) -> None:
    world.settings(f"{line}\n")
    refused = world.call("settings", code=2).stderr
    assert said in refused
    assert "loopwright.toml" in refused
    assert "secret-key" not in refused


@pytest.mark.parametrize("command", ["up", "serve"])
def test_the_option_comes_before_the_settings_and_nothing_is_begun(
    world: World, command: str
) -> None:
    refused = world.call(command, "--engine", "temporal", code=2).stderr
    assert "needs temporal_address" in refused
    assert not (world.repo / ".loopwright").exists()
    world.settings("\n".join(f"{name} = {json.dumps(text)}" for name, text in ADDRESS.items()))
    world.call("up", "--engine", "local", "--no-server")
