"""What the commands' options have in common.

Each command module has `parser(name) -> CommandLineParser` (also asked for shell completion) and
`run(name, args) -> int`. Imports nothing heavy; decides nothing about lifecycles.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from orchestrator.errors import OrchestratorError

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Sequence

STATE_FOLDER = ".loopwright"
_OURS = (".git", STATE_FOLDER)
_WORKTREES = ".repository"
"""Lies in a folder of workspaces."""
_BARE = ("HEAD", "objects", "refs")


class UsageError(OrchestratorError):
    """What was typed cannot be done; the text says why and what to type."""


class CommandLineParser(argparse.ArgumentParser):
    """An argument parser as all commands use it: no abbreviations, one line for a mistake."""

    def __init__(self, name: str, text: str, *, example: str, more: str = "") -> None:
        shown = "\n".join(f"  {line}" for line in example.splitlines())
        several = "examples" if "\n" in example else "example"
        super().__init__(
            prog=f"loopwright {name}",
            description=text,
            epilog=f"{more}\n\n{several}:\n{shown}".strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def with_repo(self) -> CommandLineParser:
        """Add --repo."""
        self.add_argument(
            "--repo", metavar="DIR", help="the git repository; by default the one around here"
        )
        return self

    def with_json(self, text: str = "print JSON instead of text") -> CommandLineParser:
        """Add --json."""
        self.add_argument("--json", action="store_true", help=text)
        return self

    def with_action(self, actions: Sequence[str]) -> CommandLineParser:
        """Add the action, `list` by default."""
        self.add_argument(
            "action", nargs="?", choices=actions, default="list", help="by default list"
        )
        return self

    def with_by(self, text: str = "who decides; by default you") -> CommandLineParser:
        """Add --by, for the record; see `user`."""
        self.add_argument("--by", metavar="NAME", help=text)
        return self

    def with_reason(self) -> CommandLineParser:
        """Add --why, for the record."""
        self.add_argument("--why", default="", metavar="TEXT", help="the reason, for the record")
        return self

    def with_agent(self) -> CommandLineParser:
        """Add the agent whose lifecycle is meant."""
        self.add_argument(
            "agent", metavar="AGENT", help="id of an agent or its task; `loopwright ps` lists them"
        )
        return self


def count(text: str) -> int:
    """Read a whole number that is not negative."""
    return _number(text, 0)


def positive(text: str) -> int:
    """Read a whole number from 1."""
    return _number(text, 1)


def seconds(text: str) -> float:
    """Read a number of seconds that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0")
    return value


def dollars(text: str) -> float:
    """Read an amount of dollars above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of dollars above 0")
    return value


def commit_id(text: str) -> str:
    """Read the id of a commit, whole or its first seven digits and more."""
    if not 7 <= len(text) <= 64 or set(text) - set("0123456789abcdef"):  # noqa: PLR2004  # as git cuts and writes them
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of a commit (7 digits or more)")
    return text


def find_repo(given: str | None) -> Path:
    """Return the repository that is meant: the given folder, or the nearest one around here.

    Inside the workspace of an agent it is the repository that the agent works for.
    """
    try:
        start = Path(given) if given is not None else Path.cwd()
        start = start.resolve(strict=True)
    except FileNotFoundError as problem:
        where = given if given is not None else "the current folder"
        raise UsageError(
            f"{where} does not exist; give the folder of a git repository"
        ) from problem
    if STATE_FOLDER in start.parts:
        start = Path(*start.parts[: start.parts.index(STATE_FOLDER)])
    around = (start,) if given is not None else (start, *start.parents)
    for folder in around:
        if any(os.path.lexists(folder / name) for name in (*_OURS, _WORKTREES)):
            return _worked_for(folder)
    if all((start / name).exists() for name in _BARE):
        raise UsageError(
            f"{start} is a bare repository, without the files that agents work on; clone it "
            "(`git clone`) and use the clone"
        )
    hint = "name its top folder" if given is not None else "change into one or give --repo DIR"
    raise UsageError(f"{start} is not in a git repository; {hint}, or make one with `git init`")


def _worked_for(folder: Path) -> Path:
    """Return the repository that an agent works for here; elsewhere the folder itself."""
    near = any(os.path.lexists(each / _WORKTREES) for each in (folder, *folder.parents))
    if not near and not (folder / ".git").is_file():
        return folder
    from runtime.workspaces.locations import user_checkout  # noqa: PLC0415  # hardly anybody types there
    from runtime.workspaces.worktrees_dir import owner_around  # noqa: PLC0415  # as above

    return user_checkout(folder) or owner_around(folder) or folder


def split_positional(args: Sequence[str], words: Sequence[str]) -> tuple[str, list[str]]:
    """Take a leading sub-command off the arguments if it is one of `words`."""
    if args and args[0] in words:
        return args[0], list(args[1:])
    return "", list(args)


def user() -> str:
    """Return the user's name, for the journal."""
    import getpass  # noqa: PLC0415  # only when nobody is named

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "somebody"


def _number(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
    return int(text)
