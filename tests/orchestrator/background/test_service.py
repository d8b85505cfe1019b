"""`loopwright service`: the files for systemd and launchd, and what is started by them."""

from __future__ import annotations

import configparser
import os
import plistlib
import shlex
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.background.service_files import ServiceFacts, launchd_plist, systemd_unit
from orchestrator.errors import OrchestratorError
from tests.orchestrator.background.background_kit import nothing_left, runner
from tests.orchestrator.loopkit import BIN, DONE, PATIENCE, SETTINGS, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

FAKE = """\
#!/bin/sh
echo "$(basename "$0") $*" >>{log}
case "$*" in
*is-active*) cat {state} 2>/dev/null || echo inactive ;;
*print*) echo "	state = running" ;;
*Linger*) echo Linger=no ;;
*bootout*) exit 3 ;;
*fails*) echo "no such thing" >&2; exit 1 ;;
esac
"""
STRANGE = 'a "b" $c %d \\e'


@pytest.fixture
def managers(world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a systemctl, launchctl and loginctl that only take notes on the PATH; returns these."""
    log, folder = world.folder / "asked", world.folder / "bin"
    folder.mkdir()
    log.touch()
    for name in ("systemctl", "launchctl", "loginctl"):
        program = folder / name
        program.write_text(FAKE.format(log=log, state=world.folder / "state"))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{BIN}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(world.folder / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(world.folder / "config"))
    return log


def _facts(**more: Any) -> ServiceFacts:
    given: dict[str, Any] = {
        "name": "loopwright-x",
        "told": "Loopwright (serve) in /x",
        "command": ("/bin/echo", STRANGE),
        "folder": Path("/tmp/50% of it"),
        "variables": {"PATH": "/usr/bin:/opt/a b"},
        "secrets": Path("/tmp/none"),
        "log": Path("/tmp/log"),
        "says_ready": True,
    }
    return ServiceFacts(**{**given, **more})


def _unit(path: Path) -> configparser.SectionProxy:
    read = configparser.RawConfigParser(strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation has it
    read.read(path)
    return read["Service"]


def test_install_is_repeatable_and_uninstall_leaves_nothing(world: World, managers: Path) -> None:
    managers.with_name("state").write_text("active\n")
    first = world.call("service", "install")
    [path] = (world.folder / "config" / "systemd" / "user").iterdir()
    assert str(path) in first.stdout
    assert "loginctl enable-linger" in first.stderr
    unit = f"{path.stem}.service"
    starts = [
        "systemctl --user daemon-reload",
        f"systemctl --user enable {unit}",
        f"systemctl --user start {unit}",
    ]
    assert managers.read_text().splitlines()[:3] == starts
    again = world.call("service", "install")
    assert "unchanged" in again.stdout
    assert "restart" not in managers.read_text()
    world.call("service", "install", "--up", world.plan_of({"A": [DONE]}))
    assert f"systemctl --user restart {unit}" in managers.read_text()
    assert " up " in _unit(path)["ExecStart"].replace('"', " ")

    assert world.json("service", "status")["state"] == "active"
    managers.with_name("state").write_text("failed\n")
    assert "failed" in world.call("service", "status", code=3).stdout

    assert "ended and removed" in world.call("service", "uninstall").stdout
    assert not path.exists()
    assert f"systemctl --user disable --now {unit}" in managers.read_text()
    assert "no service is installed" in world.call("service", "uninstall").stdout
    assert "not installed" in world.call("service", "status", code=3).stdout


def test_a_dry_run_shows_all_and_does_nothing(world: World, managers: Path) -> None:
    for kind, word in (("systemd", "ExecStart="), ("launchd", "ProgramArguments")):
        said = world.call("service", "install", "--dry-run", "--manager", kind).stdout
        assert word in said
        world.call("service", "uninstall", "--dry-run", "--manager", kind)
    assert managers.read_text() == ""
    assert not (world.folder / "config").exists()
    assert not (world.folder / "home").exists()


def test_secrets_are_named_and_never_written(
    world: World, managers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del managers
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    monkeypatch.setenv("LOOPWRIGHT_GITHUB_TOKEN", "ghp-very-secret")
    said = world.call("service", "install")
    assert "ANTHROPIC_API_KEY, LOOPWRIGHT_GITHUB_TOKEN" in said.stderr
    written = [each for each in (world.folder / "config").rglob("*") if each.is_file()]
    assert written
    assert all("very-secret" not in each.read_text() for each in written)
    secrets = world.folder / "config" / "loopwright" / "service.env"
    secrets.parent.mkdir(exist_ok=True)
    secrets.write_text("ANTHROPIC_API_KEY=1\nLOOPWRIGHT_GITHUB_TOKEN=2\n")
    assert "Set in this shell" not in world.call("service", "install").stderr


def test_what_cannot_be_installed_says_why(
    world: World, managers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no.toml" in world.call("service", "install", "--up", "no.toml", code=2).stderr
    assert "go with install" in world.call("service", "status", "--serve", code=2).stderr
    fake = managers.with_name("bin") / "systemctl"
    fake.write_text("#!/bin/sh\necho Failed to connect to bus >&2\nexit 1\n")
    refused = world.call("service", "install", code=2).stderr
    assert "Failed to connect to bus" in refused
    assert "is written" in refused
    monkeypatch.setenv("PATH", str(world.folder / "nothing"))
    with pytest.raises(OrchestratorError, match="line break"):
        systemd_unit(_facts(folder=Path("/tmp/a\nExecStartPre=/bin/rm")))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_finds_nothing_wrong_with_the_unit(world: World, managers: Path) -> None:
    del managers
    world.call("service", "install")
    [path] = (world.folder / "config" / "systemd" / "user").iterdir()
    strange = path.with_name("strange.service")
    (world.folder / "50% of it").mkdir()
    strange.write_text(systemd_unit(_facts(folder=world.folder / "50% of it")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--recursive-errors=no", path, strange],
        env={**os.environ, "XDG_RUNTIME_DIR": str(world.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if path.name in line or strange.name in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_the_property_list_says_the_same_and_any_word_survives() -> None:
    read = plistlib.loads(launchd_plist(_facts()))
    assert read["ProgramArguments"][-2:] == ["/bin/echo", STRANGE]
    assert read["EnvironmentVariables"] == {"PATH": "/usr/bin:/opt/a b"}
    assert read["WorkingDirectory"] == "/tmp/50% of it"
    assert read["KeepAlive"] == {"Crashed": True}
    done = subprocess.run(read["ProgramArguments"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{STRANGE}\n"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["systemd", "launchd"])
def test_what_is_installed_serves_with_nothing_of_this_shell(
    world: World, managers: Path, kind: str
) -> None:
    world.settings(f"{SETTINGS}port = 0\n")
    world.call("service", "install", "--manager", kind)
    if kind == "systemd":
        [path] = (world.folder / "config" / "systemd" / "user").iterdir()
        unit = _unit(path)
        words = shlex.split(unit["ExecStart"].replace("$$", "$"))
        lines = [each for each in path.read_text().splitlines() if each.startswith("Environment=")]
        env = dict(shlex.split(each.partition("=")[2])[0].split("=", 1) for each in lines)
        assert unit["WorkingDirectory"] == str(world.repo)
    else:
        [path] = (world.folder / "home" / "Library" / "LaunchAgents").iterdir()
        read = plistlib.loads(path.read_bytes())
        words, env = read["ProgramArguments"], read["EnvironmentVariables"]
        secrets = world.folder / "config" / "loopwright" / "service.env"
        secrets.parent.mkdir(parents=True, exist_ok=True)
        secrets.write_text('LOOPWRIGHT_TOKEN="0123456789abcdef0123456789abcdef"\n')
    env |= {name: os.environ[name] for name in ("HOME", "GIT_CONFIG_GLOBAL")}
    with nothing_left(world), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind(str(managers.with_name("s")))
        ready.settimeout(PATIENCE)
        env["NOTIFY_SOCKET"] = str(managers.with_name("s"))
        process = subprocess.Popen(
            words, env=env, cwd=world.repo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            assert ready.recv(4096).startswith(b"READY=1\nSTATUS=http://")
            said = runner(world)
            assert said is not None
            assert said["pid"] == process.pid, "it is the process that the system knows"
            assert world.call("down").stdout.startswith("ended")
        finally:
            process.terminate()
            out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 128 + signal.SIGTERM, out
        assert (b"LOOPWRIGHT_TOKEN" in out) == (kind == "launchd"), out
    until(lambda: runner(world) is None, "it has ended")
