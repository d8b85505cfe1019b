"""Checks that the lock and the database of a runner are still the files it opened.

When `.loopwright` is removed or replaced, a runner keeps the open files: it would write records
that nobody finds any more, and its lock would exclude nobody.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from lifecycle.store.lock import NAME, holder

MOVED = (
    "the repository {old} was moved to {new} while this runner worked: its agents are stopped, "
    "their work stays. Start again in {new}: the recorded work continues there"
)


class LostFilesCheck:
    """The lock and the database of a runner, as they were when it had opened both."""

    def __init__(self, database: Path) -> None:
        self._folder = folder = database.parent
        files = (os.fspath(folder / NAME), os.fspath(database))
        self._files = {file: _identity(file) for file in files}
        self._repository = _identity(os.fspath(folder.parent))

    def gone(self) -> str:
        """Say which file was removed or replaced and what to do; empty while all is well."""
        for path, before in self._files.items():
            now = _identity(path)
            if now == before or now is None:
                continue
            if before and not now and (new := self._moved_to(before)) is not None:
                return MOVED.format(old=self._folder.parent, new=new)
            said = holder(self._folder) if now else None
            what = "was replaced" if now else "was removed"
            other = f" (by the runner with pid {said.get('pid', '?')}, it seems)" if said else ""
            return (
                f"{path} {what} while this runner worked{other}: nothing more can be recorded and "
                "another runner could start beside it. Its agents are stopped, their branches "
                "stay. "
                f"Put {self._folder} back as it was, or start over with "
                "`loopwright init --begin-anew`"
            )
        return ""

    def _moved_to(self, file: tuple[int, int]) -> Path | None:
        """Return where the repository was moved, by a file in it that this process has open.

        The old folder may exist again, if something was written to it since.
        """
        if _identity(os.fspath(self._folder.parent)) == self._repository:
            return None
        handles = Path("/proc/self/fd")
        with suppress(OSError):
            for handle in os.listdir(handles):  # noqa: PTH208  # names only
                with suppress(OSError):
                    if _identity(os.fspath(handles / handle)) == file:
                        new = (handles / handle).readlink().parent.parent
                        return new if _identity(os.fspath(new)) == self._repository else None
        return None


def _identity(path: str) -> tuple[int, int] | tuple[()] | None:
    """Return the identity of a file: () if it does not exist, None if that is unknown."""
    try:
        found = os.stat(path)  # noqa: PTH116  # asked again and again while all is quiet
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError:
        return None
    return found.st_dev, found.st_ino
