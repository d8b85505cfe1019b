"""The command lines, word for word: everything a sandbox promises is written in them."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from runtime.errors import IsolationError
from runtime.isolation.bubblewrap import SYSTEM
from runtime.isolation.command_line import wrapped
from runtime.isolation.sandbox import Sandbox, SandboxEngine
from runtime.limits import Limits

WORK = Path("/home/ada/repo/.loopwright/worktrees/a")
BOX = Sandbox(
    WORK,
    readable=(Path("/home/ada/repo/.git"), Path("/home/ada/tools")),
    writable=(Path("/home/ada/repo/.git/objects"),),
    login=(Path("/home/ada/.claude/.credentials.json"),),
    hidden=(Path("/home/ada"), Path("/home/ada/repo/.loopwright")),
    masked=(Path("/etc/shadow"),),
    program="/usr/bin/bwrap",
)
ENV = {"HOME": "/home/ada", "PATH": "/usr/bin", "NOTE": "canary-value", "TMPDIR": "/var/tmp/x"}
OWNER = f"--user={os.getuid()}:{os.getgid()}"
KEEP = ("--userns=keep-id",) if os.getuid() else ()


def pairs(command: tuple[str, ...], option: str) -> list[str]:
    return [command[at + 1] for at, word in enumerate(command) if word == option]


def test_bubblewrap_is_told_everything_word_for_word() -> None:
    line = wrapped(("agent", "-p"), WORK, ENV, BOX)
    system = [word for place in SYSTEM for word in ("--ro-bind-try", place, place)]
    names = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "asound", "driver")
    kernel = [word for name in names for word in ("--ro-bind-try", *[f"/proc/{name}"] * 2)]
    assert list(line.command) == [
        *("/usr/bin/env", "--ignore-signal=TERM", "/usr/bin/bwrap"),
        *("--die-with-parent", "--unshare-net", "--unshare-user-try", "--unshare-pid"),
        *("--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "loopwright"),
        *("--new-session", "--cap-drop", "ALL"),
        *system,
        *("--proc", "/proc", *kernel, "--dev", "/dev"),
        *("--tmpfs", "/tmp", "--ro-bind", "/dev/null", "/etc/shadow", "--tmpfs", "/home/ada"),
        *("--ro-bind", "/home/ada/tools", "/home/ada/tools"),
        *("--ro-bind", *["/home/ada/.claude/.credentials.json"] * 2),
        *("--ro-bind", *["/home/ada/repo/.git"] * 2),
        *("--tmpfs", "/home/ada/repo/.loopwright"),
        *("--bind", *["/home/ada/repo/.git/objects"] * 2),
        *("--bind", str(WORK), str(WORK), "--chdir", str(WORK), "--"),
        *("/usr/bin/env", "--default-signal=TERM", "agent", "-p"),
    ]
    assert line.cleanup == ()


@pytest.mark.parametrize("engine", SandboxEngine)
def test_no_value_of_the_environment_becomes_part_of_the_command(engine: SandboxEngine) -> None:
    sandbox = dataclasses.replace(BOX, engine=engine, image="agents:1")
    line = wrapped(("agent",), WORK, ENV, sandbox)
    assert not any("canary-value" in word for word in line.command)
    assert line.env["NOTE"] == "canary-value"


def test_the_network_is_taken_away_unless_it_is_allowed() -> None:
    assert "--unshare-net" in wrapped(("x",), WORK, ENV, BOX).command
    allowed = dataclasses.replace(BOX, network=True)
    assert "--unshare-net" not in wrapped(("x",), WORK, ENV, allowed).command


def test_the_open_sandbox_takes_away_the_network_and_nothing_else() -> None:
    line = wrapped(("x",), WORK, ENV, Sandbox.open(WORK, program="/usr/bin/bwrap"))
    assert list(line.command) == [
        *("/usr/bin/env", "--ignore-signal=TERM", "/usr/bin/bwrap", "--die-with-parent"),
        *("--unshare-net", "--dev-bind", "/", "/", "--chdir", str(WORK), "--"),
        *("/usr/bin/env", "--default-signal=TERM", "x"),
    ]
    assert line.env == ENV


def test_a_reader_sees_all_and_writes_nothing_of_what_is_guarded() -> None:
    repo, state = Path("/srv/repo"), Path("/srv/repo/.loopwright")
    sandbox = dataclasses.replace(
        Sandbox.open(WORK), network=True, readable=(state, repo), writable=(state / "config",)
    )
    command = wrapped(("x",), WORK, ENV, sandbox).command
    assert "--unshare-net" not in command
    assert pairs(command, "--dev-bind") == ["/"]
    assert pairs(command, "--ro-bind") == [str(repo), str(state)]
    assert pairs(command, "--bind") == [f"{state}/config"]


def test_a_working_copy_that_may_only_be_read_is_mounted_so() -> None:
    command = wrapped(("x",), WORK, ENV, dataclasses.replace(BOX, read_only=True)).command
    assert str(WORK) in pairs(command, "--ro-bind")
    assert str(WORK) not in pairs(command, "--bind")


def test_variables_that_lead_to_sockets_or_folders_of_the_host_do_not_pass() -> None:
    env = ENV | {"XDG_RUNTIME_DIR": "/run/user/1", "SSH_AUTH_SOCK": "/x", "DISPLAY": ":0"}
    assert wrapped(("x",), WORK, env, BOX).env == ENV | {"TMPDIR": "/tmp"}


@pytest.mark.parametrize("home", [WORK, WORK / ".home", Path("/home/ada/repo/.git/objects/x")])
def test_a_home_that_is_writable_on_purpose_is_not_covered(home: Path) -> None:
    line = wrapped(("x",), WORK, ENV | {"HOME": str(home)}, BOX)
    assert str(home) not in pairs(line.command, "--tmpfs")


@pytest.mark.parametrize("home", ["/", "", "relative"])
def test_a_home_that_is_no_folder_of_its_own_is_not_mounted(home: str) -> None:
    line = wrapped(("x",), WORK, ENV | {"HOME": home}, dataclasses.replace(BOX, hidden=()))
    assert pairs(line.command, "--tmpfs") == ["/tmp"]


def test_what_is_hidden_stays_hidden_also_when_it_is_named_as_readable() -> None:
    sandbox = dataclasses.replace(BOX, readable=(Path("/home/ada"),))
    line = wrapped(("x",), WORK, ENV, sandbox)
    assert "/home/ada" in pairs(line.command, "--tmpfs")
    assert "/home/ada" not in pairs(line.command, "--ro-bind")


def test_a_program_with_an_equals_sign_in_its_name_is_not_taken_for_a_variable() -> None:
    line = wrapped(("/a=b/agent", "-p"), WORK, ENV, BOX)
    assert line.command[-5:] == ("/bin/sh", "-c", 'exec "$0" "$@"', "/a=b/agent", "-p")


def test_podman_is_told_every_limit_and_right() -> None:
    sandbox = dataclasses.replace(
        BOX,
        engine=SandboxEngine.PODMAN,
        program="podman",
        options=("--runtime", "runc"),
        image="agents:1",
    )
    limits = Limits(memory_mb=256, cpu_percent=150, processes=50, open_files=512)
    line = wrapped(("agent",), WORK, ENV | {"LOOPWRIGHT_SPAWN_ID": "s/1"}, sandbox, limits)
    assert list(line.command) == [
        *("podman", "--runtime", "runc", "run", "--rm", "--init", "--interactive"),
        *("--name", "loopwright-s-1", "--log-driver=none", "--read-only", "--cap-drop=ALL"),
        *("--security-opt=no-new-privileges", "--network=none", OWNER, *KEEP),
        *("--ulimit=nproc=4096:4096", "--ulimit=nofile=512:512", "--ulimit=core=0:0"),
        *("--memory=256m", "--memory-swap=256m", "--cpus=1.5", "--pids-limit=50"),
        "--tmpfs=/tmp:rw,exec,mode=1777",
        "--volume=/dev/null:/etc/shadow:ro",
        "--tmpfs=/home/ada:rw,exec,mode=1777",
        "--volume=/home/ada/tools:/home/ada/tools:ro",
        *["--volume=" + ":".join(["/home/ada/.claude/.credentials.json"] * 2) + ":ro"],
        "--volume=/home/ada/repo/.git:/home/ada/repo/.git:ro",
        "--tmpfs=/home/ada/repo/.loopwright:rw,exec,mode=1777",
        *["--volume=" + ":".join(["/home/ada/repo/.git/objects"] * 2) + ":rw"],
        f"--volume={WORK}:{WORK}:rw",
        *("--env=LOOPWRIGHT_SPAWN_ID", "--env=NOTE", "--env=HOME=/home/ada"),
        *("--env=TMPDIR=/tmp", "--workdir", str(WORK), "--pull=never", "agents:1", "agent"),
    ]
    assert line.cleanup == (
        *("podman", "--runtime", "runc", "rm", "--force", "--time=0", "--ignore"),
        "loopwright-s-1",
    )


def test_docker_is_told_the_same_in_its_own_words() -> None:
    sandbox = dataclasses.replace(
        BOX, engine=SandboxEngine.DOCKER, program="docker", image="agents:1"
    )
    line = wrapped(("agent",), WORK, ENV | {"LOOPWRIGHT_SPAWN_ID": "s1"}, sandbox)
    assert line.command[:3] == ("docker", "run", "--rm")
    assert {"--cap-drop=ALL", "--network=none", "--read-only", OWNER} <= set(line.command)
    assert not any(word.startswith(("--userns", "--ulimit=nproc")) for word in line.command)
    assert line.cleanup == ("docker", "rm", "--force", "loopwright-s1")


def test_podman_takes_a_folder_for_an_image() -> None:
    sandbox = dataclasses.replace(BOX, engine=SandboxEngine.PODMAN, image="/srv/root")
    line = wrapped(("agent",), WORK, ENV, sandbox)
    assert line.command[-3:] == ("--rootfs", "/srv/root", "agent")


@pytest.mark.parametrize("engine", [SandboxEngine.PODMAN, SandboxEngine.DOCKER])
def test_a_path_that_an_engine_would_cut_in_two_is_refused(engine: SandboxEngine) -> None:
    sandbox = Sandbox(Path("/home/ada/a:/etc"), engine=engine, image="agents:1")
    with pytest.raises(IsolationError, match="Rename it"):
        wrapped(("agent",), WORK, ENV, sandbox)


def test_in_an_image_the_programs_of_the_folder_come_before_those_of_the_image() -> None:
    sandbox = dataclasses.replace(BOX, engine=SandboxEngine.DOCKER, program="docker", image="img")
    own = f"{WORK}/.venv/bin"
    line = wrapped(("pytest", "-q"), WORK, ENV | {"PATH": f"{own}:/usr/bin"}, sandbox).command
    script = ("/bin/sh", "-c", 'PATH="$0:$PATH" exec "$@"', own)
    assert line[line.index("img") :] == ("img", *script, "pytest", "-q")
    assert wrapped(("pytest", "-q"), WORK, ENV, sandbox).command[-3:] == ("img", "pytest", "-q")
