"""What is made visible so that programs run, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.errors import IsolationError, SpawnError
from runtime.isolation.host_paths import (
    login_paths,
    own_programs,
    program_paths,
    secret_files,
    secret_folders,
)
from runtime.isolation.probe import EngineProbe, SandboxChoice
from runtime.isolation.sandbox import SandboxEngine
from runtime.isolation.workspace_sandbox import OpenedPaths, SandboxPaths, around

if TYPE_CHECKING:
    from runtime.isolation.sandbox import Sandbox

BOXED = SandboxChoice(
    "container", network=False, engine=EngineProbe(SandboxEngine.BUBBLEWRAP, "/usr/bin/bwrap")
)
CONTAINED = SandboxChoice(
    "container", network=False, engine=EngineProbe(SandboxEngine.PODMAN, "podman"), image="i"
)


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def needed(tmp_path: Path, name: str, *folders: Path) -> tuple[Path, ...]:
    path = ":".join(map(str, folders))
    return program_paths(name, tmp_path / "workspace", path, tmp_path / "home")


def sandbox_of(tmp_path: Path, choice: SandboxChoice = BOXED, **opened: str) -> Sandbox:
    for name in ("workspace", "state", "home"):
        (tmp_path / name).mkdir(exist_ok=True)
    place = SandboxPaths(tmp_path / "workspace", tmp_path / "state", tmp_path / "home")
    sandbox = around(choice, place, opened=OpenedPaths(**opened))  # type: ignore[arg-type]  # texts only
    assert sandbox is not None
    return sandbox


def test_of_a_program_with_an_installation_all_of_it_is_visible(tmp_path: Path) -> None:
    prefix = tmp_path / "home" / ".nvm" / "v20"
    program(prefix / "lib" / "cli.js", "#!/usr/bin/env node\n")
    program(prefix / "bin" / "node")
    (prefix / "bin" / "agent").symlink_to("../lib/cli.js")
    assert prefix in needed(tmp_path, "agent", prefix / "bin")
    assert all(path.is_relative_to(prefix) for path in needed(tmp_path, "agent", prefix / "bin"))


def test_of_a_shared_folder_only_the_program_is_visible(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for shared in (home / ".local" / "bin", home / "bin"):
        found = program(shared / "agent")
        assert needed(tmp_path, "agent", shared) == (found,)


@pytest.mark.parametrize("more", ["notes.md", "lib/secret", ".git/config", "bin/.env"])
def test_of_a_folder_of_somebodys_work_only_the_program_is_visible(
    tmp_path: Path, more: str
) -> None:
    work = tmp_path / "home" / "dev"
    found = program(work / "bin" / "agent")
    (work / more).parent.mkdir(exist_ok=True)
    (work / more).write_text("mine")
    if more == "lib/secret":
        assert needed(tmp_path, "agent", work / "bin") == (work,)  # as an installation looks
        (work / ".git").write_text("gitdir: elsewhere")
    assert needed(tmp_path, "agent", work / "bin") == (found,)


def test_a_home_that_looks_like_an_installation_stays_hidden(tmp_path: Path) -> None:
    for prefix in (tmp_path / "home", tmp_path):
        found = program(prefix / "bin" / "agent")
        (prefix / "lib").mkdir()
        assert needed(tmp_path, "agent", prefix / "bin") == (found,)


def test_every_link_and_interpreter_on_the_way_is_visible(tmp_path: Path) -> None:
    home = tmp_path / "home"
    real = program(home / "versions" / "3.11" / "bin" / "python3")
    (home / "versions" / "3.11" / "lib").mkdir()
    environment = home / "pipx" / "agent"
    program(environment / "bin" / "agent", f"#!{environment}/bin/python\n")
    (environment / "bin" / "python").symlink_to(real)
    (environment / "pyvenv.cfg").touch()
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "bin" / "agent").symlink_to(environment / "bin" / "agent")
    assert needed(tmp_path, "agent", home / ".local" / "bin") == (
        home / ".local" / "bin" / "agent",
        environment,
        home / "versions" / "3.11",
    )


def test_programs_of_the_system_and_of_the_workspace_need_nothing(tmp_path: Path) -> None:
    own = program(tmp_path / "workspace" / "node_modules" / ".bin" / "agent")
    assert needed(tmp_path, "sh", Path("/bin")) == ()
    assert needed(tmp_path, "./node_modules/.bin/agent") == ()
    assert needed(tmp_path, str(own)) == ()


def test_a_program_that_is_nowhere_is_refused_before_a_sandbox_is_made(tmp_path: Path) -> None:
    with pytest.raises(SpawnError, match="no-such-agent was not found"):
        needed(tmp_path, "no-such-agent", tmp_path)


def test_a_link_that_leads_to_itself_ends_the_search(tmp_path: Path) -> None:
    (tmp_path / "agent").symlink_to(tmp_path / "agent")
    with pytest.raises(SpawnError):
        needed(tmp_path, "agent", tmp_path)


def test_this_python_is_visible(tmp_path: Path) -> None:
    visible = (*own_programs(), Path("/usr"))
    assert any(Path(sys.executable).is_relative_to(path) for path in visible)
    assert set(own_programs()) <= set(sandbox_of(tmp_path).readable)


def test_known_secrets_of_the_system_are_found_and_nothing_else(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("shadow", "sudoers", "ssh/ssh_host_rsa_key")]
    keys = ("letsencrypt", "wireguard", "NetworkManager/system-connections", "ssl/private")
    folders = [tmp_path / name for name in keys]
    for folder in (*folders, tmp_path / "ssh", tmp_path / "ssl" / "certs"):
        folder.mkdir(parents=True, exist_ok=True)
    for file in (*files, tmp_path / "hosts", tmp_path / "ssh" / "ssh_config"):
        file.write_text("x")
    assert set(secret_files(tmp_path)) == set(files)
    assert set(secret_folders(tmp_path)) == set(folders)


def test_an_image_has_its_own_programs(tmp_path: Path) -> None:
    sandbox = sandbox_of(tmp_path, CONTAINED)
    assert (sandbox.readable, sandbox.masked) == ((), ())


def test_only_the_files_of_the_sign_in_are_passed(tmp_path: Path) -> None:
    keys = tmp_path / ".codex" / "auth.json"
    keys.parent.mkdir()
    keys.write_text("{}")
    (keys.parent / "history.jsonl").write_text("private")
    assert login_paths("codex", tmp_path) == (keys,)
    assert login_paths("unknown", tmp_path) == ()


@pytest.mark.parametrize("login", ["claude", "unknown", "~/.missing", "/missing"])
def test_a_sign_in_that_is_not_there_is_refused(login: str, tmp_path: Path) -> None:
    with pytest.raises(IsolationError):
        sandbox_of(tmp_path, login=login)


@pytest.mark.parametrize("login", ["~/keys", "{home}/keys"])
def test_a_sign_in_can_be_named_by_its_path(login: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "keys").write_text("x")
    sandbox = sandbox_of(tmp_path, login=login.format(home=tmp_path / "home"))
    assert sandbox.login == (tmp_path / "home" / "keys",)


def test_a_mailbox_outside_of_the_workspace_is_refused(tmp_path: Path) -> None:
    place = SandboxPaths(
        tmp_path / "a", tmp_path, tmp_path, mailbox=tmp_path / "communications.json"
    )
    with pytest.raises(IsolationError, match="outside of the workspace"):
        around(BOXED, place)


def test_no_sandbox_is_made_where_none_was_chosen(tmp_path: Path) -> None:
    place = SandboxPaths(tmp_path, tmp_path, tmp_path)
    assert around(SandboxChoice("process", network=True), place) is None
    opened = around(SandboxChoice("process", network=False, engine=BOXED.engine), place)
    assert opened is not None
    assert opened.whole
