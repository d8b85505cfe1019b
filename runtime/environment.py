"""The environment of a child process: an allow-list of the runner's variables, plus given ones.

Owns the list, and which variables lead to the code of another checkout. It must not pass secrets by
default: no token, key or password variable, nothing of git, Python, ssh or a cloud tool; an agent
that needs one gets it by name.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from runtime.code_origin.named_paths import LISTS, is_about_code, places

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from runtime.code_origin.working_trees import Trees

_ALLOWED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP"),
        *("LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    }
)
_ALLOWED_PREFIXES = ("LC_", "XDG_")
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"})
_VENV = ".venv/bin"
_OWN_PROGRAMS = (_VENV, "node_modules/.bin")
"""Where the set-up of a folder installs programs."""


class Cleared(NamedTuple):
    """An environment without what leads into the user's working tree."""

    env: dict[str, str]
    withheld: dict[str, tuple[str, ...]]
    """By variable, what was removed from it."""


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """Select what a child may inherit.

    A proxy is passed, because many machines have no network without it, unless its address
    contains a user name and a password.
    """
    return {name: value for name, value in environ.items() if _may_pass(name, value)}


def cleared(environ: Mapping[str, str], trees: Trees) -> Cleared:
    """Remove what would make a child use programs or code of the user's own checkout.

    If that checkout is or contains the home folder, only project environments are removed from
    lists: most of the user's programs are there.
    """
    env, withheld = dict(environ), dict[str, tuple[str, ...]]()
    for name, value in environ.items():
        if not is_about_code(name):
            continue
        if name in LISTS:
            entries = value.split(os.pathsep)
            wrong = tuple(each for each in entries if _is_wrong(each, trees, environ))
            left = os.pathsep.join(each for each in entries if each not in wrong)
        else:
            wrong = tuple(each for each in places(value) if trees.leads(each))
            left = ""
        if wrong:
            withheld[name] = wrong
            env[name] = left
            if not left:
                del env[name]
    return Cleared(env, withheld)


def at_home_in(
    folder: Path, env: Mapping[str, str], made: Collection[str] | None = None
) -> dict[str, str]:
    """Return the variables by which the programs and packages of a folder are found first.

    If `made` says what a set-up made there, nothing else of the folder is on the PATH: the author
    of a commit must not choose the programs that judge it.
    """
    own = [each for each in _OWN_PROGRAMS if _is_own(folder, each, made)]
    rest = env.get("PATH", os.defpath)
    if made is not None:  # relative entries lead into the files of the commit
        rest = os.pathsep.join(each for each in rest.split(os.pathsep) if each.startswith("/"))
    path = os.pathsep.join((*(f"{folder}/{each}" for each in own), *filter(None, [rest])))
    found = {"PATH": path or os.defpath} if path != env.get("PATH", os.defpath) else {}
    if _VENV in own and os.path.isfile(f"{folder}/.venv/pyvenv.cfg"):  # noqa: PTH113  # at each start
        found["VIRTUAL_ENV"] = f"{folder}/.venv"
    return found


def in_folder(program: str, folder: Path) -> bool:
    """Tell whether a folder has a program of its own by this name."""
    return any(os.access(f"{folder}/{each}/{program}", os.X_OK) for each in _OWN_PROGRAMS)


def withheld_program(program: str, withheld: Mapping[str, tuple[str, ...]]) -> str:
    """Return where a program is in the folders of the PATH that are not inherited."""
    entries = [entry for entry in withheld.get("PATH", ()) if entry]
    return shutil.which(program, path=os.pathsep.join(entries)) or "" if entries else ""


def _is_own(folder: Path, programs: str, made: Collection[str] | None) -> bool:
    top = programs.partition("/")[0]
    names = (top, f"{top}/", programs, f"{programs}/")
    if made is not None and not any(name in made for name in names):
        return False
    return os.path.isdir(f"{folder}/{programs}")  # noqa: PTH112  # as above


def _is_wrong(entry: str, trees: Trees, environ: Mapping[str, str]) -> bool:
    if not entry.startswith("/") or not trees.leads(entry):
        return False
    home = environ.get("HOME", "")
    if not home or not trees.leads(home):
        return True
    plain = entry.rstrip("/")
    return plain.endswith("/node_modules/.bin") or os.path.isfile(f"{plain}/../pyvenv.cfg")  # noqa: PTH113  # as above


def _may_pass(name: str, value: str) -> bool:
    if name.lower() in _PROXIES:
        return "@" not in value
    return name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)
