"""What people wrote down as settings: the files, the variables, and the place of each value.

Owns which sources there are and in which order. Judges no value: that is `settings`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.forge_registry import FORGES, SENDERS, secret_variable, token_variable
from orchestrator.config.toml_text import TomlText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PREFIX = "LOOPWRIGHT_"
NOT_SETTINGS = frozenset(
    PREFIX + name
    for name in (
        *("AGENT_ID", "TASK_ID", "ATTEMPT", "SPAWN_ID", "COMM_FILE", "SUMMARY_FILE", "REMARKS"),
        *("DEBUG", "CRASH_AT", "AGENT_SCRIPT", "HYPOTHESIS", "MACHINE_ID"),
        *("TOKEN", "WORKER_TOKEN"),
    )
) | {*map(token_variable, FORGES), *map(secret_variable, SENDERS)}
"""Variables of ours that are not settings: what agents get, debugging aids, and secrets, which
belong in no file and no listing."""
REPO_FILE = "loopwright.toml"
PROJECT_FILE = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says, and how to name the place of each of its values."""

    values: dict[str, Any]
    where: Callable[[str], str]
    is_text: bool = False
    """Whether it knows nothing but texts: variables."""
    file: str = ""
    """Its name if it is a file of the repository, which agents can write."""


def layers(repo: Path | None, environ: Mapping[str, str]) -> Iterator[Layer]:
    """Read what there is, the weakest first; without a repository what is of none."""
    for path in _user_files(environ):
        yield from _file_layer(path)
    if repo is not None:
        yield from _file_layer(repo / PROJECT_FILE, "tool", "loopwright", file=PROJECT_FILE)
        yield from _file_layer(repo / REPO_FILE, file=REPO_FILE)
    yield _environment_layer(environ)


def settings_files(repo: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Name the files that are read, the weakest first; they need not be there."""
    return (*_user_files(environ), repo / PROJECT_FILE, repo / REPO_FILE)


def _file_layer(path: Path, *table: str, file: str = "") -> Iterator[Layer]:
    text = TomlText.read(path)
    if text is None and file:
        # Also a file that is gone has a place: for what a person approved of it.
        text = TomlText(path, "")
    if text is not None:
        yield Layer(dict(text.table(*table)), lambda name: _place(text, table, name), file=file)


def _place(text: TomlText, table: tuple[str, ...], name: str) -> str:
    """Name the place of a value; `notify.0.quiet` is a key of the first entry of a list."""
    steps = [int(each) if each.isdigit() else each for each in name.split(".")]
    while len(steps) > 1 and not text.has((*table, *steps)):
        steps.pop()  # a key that is missing: the entry itself
    return text.where((*table, *steps))


def _environment_layer(environ: Mapping[str, str]) -> Layer:
    values = {
        variable.removeprefix(PREFIX).lower(): text
        for variable, text in environ.items()
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS and text.strip()
    }
    return Layer(values, lambda name: PREFIX + name.upper(), is_text=True)


def _user_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    home = environ.get("HOME", "")
    given = environ.get("XDG_CONFIG_HOME", "")
    folders = []
    if sys.platform == "darwin" and home:
        folders.append(Path(home, "Library", "Application Support"))
    if given and Path(given).is_absolute():
        folders.append(Path(given))
    elif home:
        folders.append(Path(home, ".config"))
    return tuple(folder / "loopwright" / "config.toml" for folder in folders)
