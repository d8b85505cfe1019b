"""`deploy/compose.yaml` names services, commands, options and settings that there are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # a tool of the tests alone

from orchestrator.cli.main import COMMANDS
from orchestrator.config.settings import load_settings
from orchestrator.runner.engine_choice import lacking
from orchestrator.web.token import VARIABLE, WORKER_VARIABLE

FILE = Path(__file__).resolve().parents[2] / "deploy" / "compose.yaml"


ASKED_FOR = (
    "${POSTGRES_PASSWORD:?", "${LOOPWRIGHT_TOKEN:?", "${LOOPWRIGHT_WORKER_TOKEN:?",
)  # fmt: skip


def services() -> dict[str, dict[str, Any]]:
    whole: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
    assert set(whole) <= {"services", "volumes", "x-loopwright", "x-worker"}
    found: dict[str, dict[str, Any]] = whole["services"]
    used = {name.partition(":")[0] for each in found.values() for name in each.get("volumes", ())}
    assert used == set(whole["volumes"])
    return found


def ours() -> dict[str, dict[str, Any]]:
    return {name: each for name, each in services().items() if "build" in each}


def test_services_depend_on_services_that_there_are_and_passwords_are_asked_for() -> None:
    found = services()
    for each in found.values():
        assert set(each.get("depends_on", ())) <= set(found)
        for name, value in each["environment"].items():
            secret = name.endswith(("PASSWORD", "PWD", "TOKEN"))
            assert not secret or value.startswith(ASKED_FOR)
        for port in each.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nobody outside unless a person decides so"
    assert found["postgres"]["environment"]["POSTGRES_USER"] == "temporal"


def test_commands_have_the_options_that_are_given() -> None:
    assert ours()
    for each in ours().values():
        program, command, *options = each["command"]
        assert program == "loopwright"
        module = import_module(f"orchestrator.cli.commands.{COMMANDS[command]}")
        read = module.parser(command).parse_args(options)
        if getattr(read, "host", None):  # beyond this machine it asks for a token of one's own
            assert each["environment"][VARIABLE].startswith(f"${{{VARIABLE}:?")


def test_workers_know_their_coordinator_and_have_its_token() -> None:
    found = ours()
    workers = [each for each in found.values() if each["command"][1] == "worker"]
    assert len(workers) == 2
    for each in workers:
        options = each["command"]
        scheme, _, place = options[options.index("--coordinator") + 1].partition("://")
        host, _, port = place.partition(":")
        serves = found[host]["command"]
        assert (scheme, port) == ("http", serves[serves.index("--port") + 1])
        assert host in found[host]["environment"]["LOOPWRIGHT_ALLOWED_HOSTS"].split(",")
        tokens = {which["environment"][WORKER_VARIABLE] for which in (each, found[host])}
        assert len(tokens) == 1


def test_settings_are_whole_and_lead_to_the_server_beside_them(tmp_path: Path) -> None:
    for each in ours().values():
        settings = load_settings(tmp_path, environ=each["environment"])
        assert lacking(settings, {}) == ""
        server, _, port = settings.temporal_address.partition(":")
        assert (server, port) == ("temporal", "7233")
        namespace = services()[server]["environment"]["DEFAULT_NAMESPACE"]
        assert namespace == settings.temporal_namespace
