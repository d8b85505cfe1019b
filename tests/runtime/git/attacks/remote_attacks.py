"""What an agent can plant so that a push or a fetch by somebody else serves it.

Each attack has a control: a plain git command with which it does what it is for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.runtime.git.attacks.bed import plain_git
from tests.runtime.remote.ends import HEADER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runtime.git.attacks.bed import Bed
    from tests.runtime.remote.ends import Web

SIGNED = ("-c", f"http.extraHeader=Authorization: {HEADER['Authorization']}")
PUSH = ("push", "-q", "origin", "agent/a")
FETCH = ("fetch", "-q", "origin", "+refs/heads/main:refs/theirs")
UNKNOWN = "ssh://git@example.invalid/x.git"


@dataclass
class Scene:
    """A repository under attack, the remote it has, and a place where the agent listens."""

    bed: Bed
    web: Web
    ear: Web
    """Speaks git as well, lets everybody in, and is the agent's."""

    @property
    def there(self) -> Path:
        return self.bed.top / "there.git"

    @property
    def evil(self) -> Path:
        return self.bed.top / "ear" / "there.git"

    @property
    def fired(self) -> bool:
        """Whether a program ran, or something came to the agent's own place."""
        return (
            self.bed.fired
            or bool(self.ear.seen)
            or bool(plain_git(self.evil, "for-each-ref", "refs/heads/agent"))
            or any("x-planted" in headers for _, headers in self.web.seen)
            or (self.bed.top / "jar").exists()
        )

    def careless(self, attack: RemoteAttack) -> None:
        """Let a plain git do it."""
        words = [word.format(url=self.address(attack.way)) for word in attack.control]
        self.bed.git(*words, env=self.bed.environ)

    def address(self, way: str) -> str:
        """Return where the remote is."""
        known = {
            "path": str(self.there),
            "file": f"file://{self.there}",
            "web": self.web.url("there.git"),
        }
        return known.get(way.split(maxsplit=1)[0], way)


@dataclass(frozen=True)
class RemoteAttack:
    """One way, planted by an agent; `control` is what a careless runner would do."""

    name: str
    plant: Callable[[Scene], None]
    control: tuple[str, ...] = PUSH
    way: str = "path"
    """By which the remote is reached: path, web, web without a sign-in, or an address."""
    reached: bool = True
    """Whether ours does its work all the same; else it refuses."""


def _keys(*keys: str, **values: str) -> Callable[[Scene], None]:
    def plant(scene: Scene) -> None:
        for key in keys:
            scene.bed.config(key)
        for key, value in values.items():
            scene.bed.config(
                key.replace("__", "."), value.format(evil=scene.evil, top=scene.bed.top)
            )

    return plant


def _hook(*names: str) -> Callable[[Scene], None]:
    def plant(scene: Scene) -> None:
        for name in names:
            scene.bed.program(name, scene.bed.common / "hooks")

    return plant


def _hooks_path(scene: Scene) -> None:
    scene.bed.program("pre-push", scene.bed.work / "hooks")
    scene.bed.config("core.hooksPath", str(scene.bed.work / "hooks"))


def _rewriting(key: str) -> Callable[[Scene], None]:
    def plant(scene: Scene) -> None:
        scene.bed.config(f"url.{scene.evil}.{key}", str(scene.there))

    return plant


def _web_rewriting(scene: Scene) -> None:
    scene.bed.config(f"url.{scene.ear.url('there.git')}.insteadOf", scene.web.url("there.git"))


def _rewriting_to_a_program(scene: Scene) -> None:
    scene.bed.config("protocol.ext.allow", "always")
    scene.bed.config(f"url.ext::{scene.bed.program()} .insteadOf", str(scene.there))


def _included(key: str) -> Callable[[Scene], None]:
    def plant(scene: Scene) -> None:
        more = scene.bed.work / "more.cfg"
        more.write_text(f'[remote "origin"]\n\treceivepack = {scene.bed.program()}\n')
        scene.bed.config(key, str(more))

    return plant


def _worktree_config(scene: Scene) -> None:
    scene.bed.config("extensions.worktreeConfig", "true")
    for folder in (scene.bed.own, scene.bed.common):
        text = f'[remote "origin"]\n\treceivepack = {scene.bed.program()}\n'
        (folder / "config.worktree").write_text(text)


def _named_by_url(key: str) -> Callable[[Scene], None]:
    return lambda scene: scene.bed.config(f"remote.{scene.address('file')}.{key}")


def _legacy_remote(scene: Scene) -> None:
    folder = scene.bed.common / "remotes"
    folder.mkdir()
    (folder / "example.invalid:x.git").write_text(f"URL: {scene.evil}\n")


def _proxy(scene: Scene) -> None:
    scene.bed.config("http.proxy", scene.ear.url(""))


def _signing(scene: Scene) -> None:
    plain_git(scene.there, "config", "receive.certNonceSeed", "seed")
    _keys("gpg.program", push__gpgSign="if-asked")(scene)


def _submodule(scene: Scene) -> None:
    bed, inner = scene.bed, scene.bed.work / "sub"
    plain_git(bed.top, "init", "-q", "--bare", "sub.git")
    plain_git(bed.work, "init", "-q", "-b", "agent/a", "--template=", str(inner))
    plain_git(inner, "remote", "add", "origin", str(bed.top / "sub.git"))
    plain_git(inner, "commit", "-q", "--allow-empty", "-m", "Inner")
    plain_git(inner, "push", "-q", "origin", "HEAD")
    plain_git(inner, "commit", "-q", "--allow-empty", "-m", "More")
    bed.program("pre-push", inner / ".git" / "hooks")
    (bed.work / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ../sub.git\n')
    bed.git("add", "sub", ".gitmodules")
    bed.git("commit", "-qm", "A submodule", "sub", ".gitmodules")
    bed.config("push.recurseSubmodules", "on-demand")
    bed.config("submodule.recurse", "true")


def _alternates(scene: Scene) -> None:
    other = scene.bed.top / "other"
    plain_git(scene.bed.top, "init", "-q", str(other))
    info = scene.bed.common / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(f"{other / '.git' / 'objects'}\n")
    scene.bed.config("core.alternateRefsCommand")


def _upkeep(scene: Scene) -> None:
    _hook("pre-auto-gc")(scene)
    scene.bed.config("gc.auto", "1")
    scene.bed.config("gc.autoDetach", "false")
    folder = scene.bed.common / "objects" / "17"  # by which git estimates
    folder.mkdir(exist_ok=True)
    for number in range(3):
        (folder / f"{number:038x}").touch()


def _url_swapped(scene: Scene) -> None:
    scene.bed.config("remote.origin.url", str(scene.evil))


def _url_to_a_program(scene: Scene) -> None:
    scene.bed.config("protocol.ext.allow", "always")
    scene.bed.config("remote.origin.url", f"ext::{scene.bed.program()}")


def _ssh_beside(scene: Scene) -> None:
    for folder in (scene.bed.repo, scene.bed.work):
        scene.bed.program("ssh", folder)
    scene.bed.environ["PATH"] = os.pathsep.join((".", os.environ["PATH"]))


ATTACKS = (
    RemoteAttack("hook pre-push", _hook("pre-push")),
    RemoteAttack("core.hooksPath", _hooks_path),
    RemoteAttack("hook reference-transaction", _hook("reference-transaction"), FETCH),
    RemoteAttack("hook pre-auto-gc", _upkeep, FETCH),
    RemoteAttack("remote receivepack", _keys("remote.origin.receivepack")),
    RemoteAttack("remote uploadpack", _keys("remote.origin.uploadpack"), FETCH),
    RemoteAttack("remote receivepack by its address", _named_by_url("receivepack"),
                 ("push", "-q", "{url}", "agent/a"), way="file"),
    RemoteAttack("remote uploadpack by its address", _named_by_url("uploadpack"),
                 ("fetch", "-q", "{url}", "main"), way="file"),
    RemoteAttack("remote pushurl", _keys(remote__origin__pushurl="{evil}")),
    RemoteAttack("remote url changed", _url_swapped),
    RemoteAttack("remote url becomes a program", _url_to_a_program, FETCH),
    RemoteAttack("remote in its old form", _legacy_remote,
                 ("push", "-q", "{url}", "agent/a"), way="example.invalid:x.git", reached=False),
    RemoteAttack("url insteadOf", _rewriting("insteadOf"), ("push", "-q", "{url}", "agent/a")),
    RemoteAttack("url pushInsteadOf", _rewriting("pushInsteadOf")),
    RemoteAttack("url insteadOf on the web", _web_rewriting, (*SIGNED, *PUSH), way="web"),
    RemoteAttack("url insteadOf ext::", _rewriting_to_a_program, FETCH),
    RemoteAttack("include.path", _included("include.path")),
    RemoteAttack("includeIf", _included("includeIf.gitdir:/.path")),
    RemoteAttack("config.worktree", _worktree_config),
    RemoteAttack("core.sshCommand", _keys("core.sshCommand"), way=UNKNOWN, reached=False),
    RemoteAttack("ssh in the workspace", _ssh_beside, way=UNKNOWN, reached=False),
    RemoteAttack("core.gitProxy", _keys("core.gitProxy"), way="git://example.invalid/x",
                 reached=False),
    RemoteAttack("core.askPass", _keys("core.askPass"), way="web without", reached=False),
    RemoteAttack("credential.helper", _keys(credential__helper="!echo x >> '{top}/mark'; :"),
                 way="web without", reached=False),
    RemoteAttack("http.proxy", _proxy, (*SIGNED, *PUSH), way="web"),
    RemoteAttack("http.extraHeader", _keys(http__extraHeader="X-Planted: x"), (*SIGNED, *PUSH),
                 way="web"),
    RemoteAttack("http.cookieFile", _keys(http__saveCookies="true", http__cookieFile="{top}/jar"),
                 (*SIGNED, *PUSH), way="web"),
    RemoteAttack("push.gpgSign", _signing),
    RemoteAttack("submodules", _submodule),
    RemoteAttack("core.alternateRefsCommand", _alternates, FETCH),
)  # fmt: skip
