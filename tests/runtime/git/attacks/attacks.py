"""What an agent can plant so that a git run by somebody else starts its program.

Each attack has a control: plain git commands with which the planted program does run.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.runtime.git.attacks.bed import plain_git

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runtime.git.attacks.bed import Bed

FILTER = "would have to pass a filter"


@dataclass(frozen=True)
class Attack:
    """One way, planted by an agent; `control` is what a careless git runner would do."""

    name: str
    plant: Callable[[Bed], None]
    control: Callable[[Bed], object]
    refused: str = ""
    """Words of the refusal, where merging into the user's checkout is refused because of it."""
    told: bool = True
    """Whether it is told when the workspace is prepared again; it is where git would go astray."""
    beside: str = ""
    """Planted in one repository with the others of this name, none of which changes another."""


def _keys(*keys: str, **values: str) -> Callable[[Bed], None]:
    def plant(bed: Bed) -> None:
        for key in keys:
            bed.config(key)
        for key, value in values.items():
            bed.config(key.replace("__", "."), value)

    return plant


def _run(*args: str, **more: str) -> Callable[[Bed], object]:
    def control(bed: Bed) -> object:
        return bed.git(*args, env=more)

    return control


def _hooks(folder: Path, bed: Bed, *names: str) -> None:
    for name in names:
        bed.program(name, folder)


def _hooks_folder(bed: Bed) -> None:
    _hooks(
        bed.common / "hooks", bed,
        "post-checkout", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit",
        "pre-merge-commit", "post-merge", "pre-auto-gc", "post-rewrite",
    )  # fmt: skip


def _filtered(verb: str, line: str = "* filter=x") -> Callable[[Bed], None]:
    def plant(bed: Bed) -> None:
        bed.attributes(line)
        bed.config(f"filter.x.{verb}")

    return plant


def _info_attributes(line: str, *keys: str) -> Callable[[Bed], None]:
    def plant(bed: Bed) -> None:
        (bed.common / "info" / "attributes").write_text(line + "\n")
        for key in keys:
            bed.config(key)

    return plant


def _attributes_file(bed: Bed) -> None:
    (bed.work / "attributes").write_text("* filter=x\n")
    bed.config("core.attributesFile", str(bed.work / "attributes"))
    bed.config("filter.x.clean")


def _drivers(line: str, key: str) -> Callable[[Bed], None]:
    def plant(bed: Bed) -> None:
        bed.attributes(line)
        bed.config(key)

    return plant


def _included(key: str) -> Callable[[Bed], None]:
    def plant(bed: Bed) -> None:
        (bed.work / "more.cfg").write_text(f"[core]\n\tfsmonitor = {bed.program()}\n")
        bed.config(key, str(bed.work / "more.cfg"))

    return plant


def _worktree_config(bed: Bed) -> None:
    bed.config("extensions.worktreeConfig", "true")
    (bed.own / "config.worktree").write_text(f"[core]\n\tfsmonitor = {bed.program()}\n")


def _evil_repository(bed: Bed, folder: Path) -> Path:
    plain_git(bed.top, "init", "-q", str(folder))
    plain_git(folder, "config", "core.fsmonitor", bed.program())
    plain_git(folder, "commit", "-q", "--allow-empty", "-m", "Planted")
    return folder / ".git"


def _pointer_folder(bed: Bed) -> None:
    (bed.work / ".git").unlink()
    _evil_repository(bed, bed.work)


def _pointer_elsewhere(bed: Bed) -> None:
    evil = _evil_repository(bed, bed.top / "evil")
    (bed.work / ".git").write_text(f"gitdir: {evil}\n")


def _pointer_link(bed: Bed) -> None:
    evil = _evil_repository(bed, bed.top / "evil")
    (bed.work / ".git").unlink()
    (bed.work / ".git").symlink_to(evil)


def _common_dir_swapped(bed: Bed) -> None:
    evil = _evil_repository(bed, bed.top / "evil")
    (bed.own / "commondir").write_text(f"{evil}\n")


def _own_folder_swapped(bed: Bed) -> None:
    """Replace the worktree's folder inside the repository by a link to a copy elsewhere."""
    evil = _evil_repository(bed, bed.top / "evil")
    moved = bed.top / "moved"
    bed.own.rename(moved)
    (moved / "commondir").write_text(f"{evil}\n")
    bed.own.symlink_to(moved)


def _bare_inside(bed: Bed) -> None:
    bare = bed.work / "vendor"
    plain_git(bed.work, "init", "-q", "--bare", str(bare))
    plain_git(bare, "config", "core.bare", "false")
    plain_git(bare, "config", "core.worktree", str(bare))
    plain_git(bare, "config", "core.fsmonitor", bed.program())


def _repository_inside(bed: Bed) -> None:
    _evil_repository(bed, bed.work / "vendor")
    (bed.work / "vendor" / "file.txt").write_text("vendored\n")


def _submodule(bed: Bed) -> Path:
    inner = bed.work / "sub"
    plain_git(bed.work, "init", "-q", str(inner))
    (inner / "file.txt").write_text("one\n")
    plain_git(inner, "add", ".")
    plain_git(inner, "commit", "-qm", "Inner")
    bed.git("add", "sub")
    bed.git("commit", "-qm", "A submodule", "sub")
    return inner


def _submodule_filter(bed: Bed) -> None:
    inner = _submodule(bed)
    (inner / ".git" / "info" / "attributes").write_text("* filter=x\n")
    plain_git(inner, "config", "filter.x.clean", bed.program())
    (inner / "file.txt").write_text("two\n")  # as long as before: git has to look inside


def _submodule_update(bed: Bed) -> None:
    _submodule(bed)
    url = str(bed.work / "sub")
    (bed.work / ".gitmodules").write_text(f'[submodule "sub"]\n\tpath = sub\n\turl = {url}\n')
    bed.config("submodule.sub.url", url)
    bed.config("submodule.sub.active", "true")
    bed.config("submodule.sub.update", f"!{bed.program()}")
    plain_git(bed.work / "sub", "checkout", "-q", "--detach")
    plain_git(bed.work / "sub", "commit", "-q", "--allow-empty", "-m", "Moved on")


def _remote(*keys: str, url: str = "", **values: str) -> Callable[[Bed], None]:
    def plant(bed: Bed) -> None:
        bed.config("remote.origin.url", url or str(bed.repo))
        bed.config("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
        _keys(*keys, **values)(bed)

    return plant


def _url_to_ext(bed: Bed) -> None:
    bed.config("protocol.ext.allow", "always")
    bed.config(f"url.ext::{bed.program()} .insteadOf", "https://example.invalid/")
    bed.config("remote.origin.url", "https://example.invalid/x")


def _alternate_refs(bed: Bed) -> None:
    evil = _evil_repository(bed, bed.top / "evil")
    (bed.common / "objects" / "info").mkdir(exist_ok=True)
    (bed.common / "objects" / "info" / "alternates").write_text(f"{evil / 'objects'}\n")
    bed.config("core.alternateRefsCommand")


def _git_in_the_workspace(bed: Bed) -> None:
    bed.program("git", bed.work)
    bed.environ["PATH"] = os.pathsep.join((".", "", os.environ["PATH"]))


def _run_git_in_the_workspace(bed: Bed) -> None:
    command = ("/bin/sh", "-c", "git status")
    env = {**os.environ, "PATH": bed.environ["PATH"]}
    subprocess.run(command, cwd=bed.work, env=env, check=True, stdin=subprocess.DEVNULL)


def _conflict(bed: Bed) -> object:
    bed.git("stash", "-q")
    return bed.git("merge", "-q", "--no-edit", "side")


def _credential(bed: Bed) -> object:
    asked = b"protocol=https\nhost=example.invalid\n\n"
    return bed.git("credential", "fill", stdin=asked)


def _in_a_terminal(bed: Bed, *args: str) -> None:
    terminal, other_end = os.openpty()
    try:
        env = {**os.environ, "TERM": "xterm"}
        command = ("git", *(args or ("log", "-1")))
        no_input = subprocess.DEVNULL
        subprocess.run(
            command, cwd=bed.work, env=env, stdin=no_input, stdout=other_end, check=False
        )
    finally:
        os.close(other_end)
        os.close(terminal)


def _touched_index(bed: Bed) -> object:
    os.utime(bed.work / "notes.txt", (1, 1))
    return bed.git("status")


def _hook(name: str) -> Callable[[Bed], None]:
    return lambda bed: _hooks(bed.common / "hooks", bed, name)


def _hooks_path(bed: Bed) -> None:
    _hooks(bed.work / "hooks", bed, "post-checkout", "pre-commit", "post-merge", "post-commit")
    bed.config("core.hooksPath", "hooks")


_COMMIT = _run("commit", "-qam", "More")

KEYS, MORE_KEYS, REMOTE = "keys", "more keys", "programs of a remote"

ATTACKS = (
    Attack("core.fsmonitor", _keys("core.fsmonitor"), _run("status"), beside=KEYS),
    Attack("hooks of the repository", _hooks_folder, _COMMIT),
    Attack("hook reference-transaction", _hook("reference-transaction"), _COMMIT),
    Attack("hook post-index-change", _hook("post-index-change"), _touched_index),
    Attack("core.hooksPath", _hooks_path, _COMMIT),
    Attack("filter clean", _filtered("clean"), _run("add", "notes.txt")),
    Attack("filter smudge", _filtered("smudge"), _run("checkout", "app.py")),
    Attack("filter process", _filtered("process"), _run("add", "notes.txt")),
    Attack(
        "filter by info/attributes",
        _info_attributes("* filter=x", "filter.x.clean", "filter.x.smudge"),
        _run("add", "notes.txt"),
        refused=FILTER,
    ),
    Attack("filter by core.attributesFile", _attributes_file, _run("add", "notes.txt")),
    Attack("diff textconv", _drivers("* diff=x", "diff.x.textconv"), _run("log", "-p")),
    Attack("diff command", _drivers("* diff=x", "diff.x.command"), _run("diff")),
    Attack("diff.external", _keys("diff.external"), _run("diff"), beside=KEYS),
    Attack("merge driver", _drivers("* merge=x", "merge.x.driver"), _conflict),
    Attack("merge driver by info/attributes", _info_attributes("* merge=x", "merge.x.driver"),
           _conflict),
    Attack("merge.default", _keys("merge.x.driver", merge__default="x"), _conflict, beside=KEYS),
    Attack("include.path", _included("include.path"), _run("status")),
    Attack("includeIf", _included("includeIf.gitdir:/.path"), _run("status")),
    Attack("config.worktree", _worktree_config, _run("status")),
    Attack("a folder instead of the pointer", _pointer_folder, _run("status")),
    Attack("pointer to another repository", _pointer_elsewhere, _run("status")),
    Attack("link instead of the pointer", _pointer_link, _run("status")),
    Attack("commondir swapped", _common_dir_swapped, _run("status")),
    Attack("the worktree's own folder swapped", _own_folder_swapped, _run("status")),
    Attack("bare repository inside", _bare_inside,
           lambda bed: plain_git(bed.work / "vendor", "status"), told=False),
    Attack("repository inside", _repository_inside,
           lambda bed: plain_git(bed.work / "vendor", "status"), told=False),
    Attack("filter of a submodule, on status", _submodule_filter, _run("status"), told=False),
    Attack("filter of a submodule, on add", _submodule_filter, _run("add", "--all"), told=False),
    Attack("submodule update command", _submodule_update, _run("submodule", "update")),
    Attack("core.editor", _keys("core.editor"), _run("commit", "-qa"), beside=KEYS),
    Attack("sequence.editor", _keys("sequence.editor"),
           _run("rebase", "-i", "--autostash", "HEAD~1"), beside=MORE_KEYS),
    Attack("core.pager", _keys("core.pager"), _in_a_terminal, beside=KEYS),
    Attack("pager of a command", _keys("pager.log"), _in_a_terminal, beside=MORE_KEYS),
    Attack("gpg.program", _keys("gpg.program", commit__gpgSign="true"), _COMMIT, beside=KEYS),
    Attack("gpg.ssh.program", _keys("gpg.ssh.program", commit__gpgSign="true", gpg__format="ssh",
           user__signingKey="key::ssh-ed25519 AAAA"), _COMMIT, beside=MORE_KEYS),
    Attack("credential.helper", lambda bed: bed.config("credential.helper", f"!{bed.program()}"),
           _credential, beside=KEYS),
    Attack("core.askPass", _keys("core.askPass"), _credential, beside=MORE_KEYS),
    Attack("core.sshCommand", _remote("core.sshCommand", url="ssh://example.invalid/x"),
           _run("fetch", "-q"), beside=KEYS),
    Attack("core.gitProxy", _remote("core.gitProxy", url="git://example.invalid/x"),
           _run("fetch", "-q"), beside=MORE_KEYS),
    Attack("remote uploadpack", _remote("remote.origin.uploadpack"), _run("fetch", "-q"),
           beside=REMOTE),
    Attack("remote receivepack", _remote("remote.origin.receivepack"),
           _run("push", "-q", "origin", "HEAD:refs/heads/pushed"), beside=REMOTE),
    Attack("url that becomes ext::", _url_to_ext, _run("fetch", "-q")),
    Attack("core.alternateRefsCommand", _alternate_refs, _run("rev-list", "--alternate-refs")),
    Attack("alias", lambda bed: bed.config("alias.st", f"!{bed.program()}"), _run("st"),
           beside=KEYS),
    Attack("trailer command", _keys("trailer.see.command", trailer__see__key="See"),
           _run("commit", "-qam", "More", "--trailer", "See:x"), beside=KEYS),
    Attack("interactive.diffFilter", _keys("interactive.diffFilter"),
           lambda bed: _in_a_terminal(bed, "add", "-p"), beside=MORE_KEYS),
    Attack("archive command", _keys("tar.x.command"), _run("archive", "--format=x", "HEAD"),
           beside=KEYS),
    Attack("difftool", _keys("difftool.x.cmd", diff__tool="x"), _run("difftool", "-y"),
           beside=KEYS),
    Attack("mergetool and man viewer", _keys("man.x.cmd", man__viewer="x"),
           _run("help", "-m", "status"), beside=MORE_KEYS),
    Attack("git in the workspace", _git_in_the_workspace, _run_git_in_the_workspace, told=False),
)  # fmt: skip
