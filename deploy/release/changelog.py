"""Cuts the changelog for a release, and reads the notes of one out of it.

python -m deploy.release.changelog cut YYYY-MM-DD   # [Unreleased] becomes the present version
python -m deploy.release.changelog notes VERSION             # print what changed in it
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from orchestrator.version import __version__  # noqa: E402  # found only now

FILE = ROOT / "CHANGELOG.md"
OPEN = "## [Unreleased]\n"
_HEAD = re.compile(r"^## \[([^\]\n]+)\].*\n", re.MULTILINE)


class ChangelogError(Exception):
    """The changelog has not the form that a release needs."""


def cut(text: str, version: str, day: date) -> str:
    """Return the changelog in which all that was unreleased belongs to a version."""
    if not notes(text, "Unreleased"):
        raise ChangelogError(f"{FILE.name}: nothing stands under [Unreleased]; write what changed")
    if any(found[1] == version for found in _HEAD.finditer(text)):
        raise ChangelogError(
            f"{FILE.name} has a section [{version}]; raise __version__ in orchestrator/version.py"
        )
    return text.replace(OPEN, f"{OPEN}\n## [{version}] - {day.isoformat()}\n", 1)


def notes(text: str, version: str) -> str:
    """Return what the section of a version says."""
    heads = [*_HEAD.finditer(text)]
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        if head[1] == version:
            return text[head.end() : after.start() if after else None].strip()
    raise ChangelogError(
        f"{FILE.name} has no section [{version}]; `python -m deploy.release.changelog cut DAY` "
        "makes it of [Unreleased]"
    )


def main(argv: list[str] | None = None) -> int:
    """Cut, or print notes."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release.changelog", description=__doc__)
    doing = parser.add_subparsers(dest="doing", required=True)
    cutting = doing.add_parser("cut")
    cutting.add_argument("day", type=date.fromisoformat, metavar="YYYY-MM-DD")
    doing.add_parser("notes").add_argument("version")
    options = parser.parse_args(argv)
    try:
        text = FILE.read_text("utf-8")
        if options.doing == "notes":
            print(notes(text, options.version))
        else:
            FILE.write_text(cut(text, __version__, options.day), "utf-8")
            print(f"{FILE.name}: [{__version__}] is cut; read it, commit it, tag v{__version__}")
    except ChangelogError as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
