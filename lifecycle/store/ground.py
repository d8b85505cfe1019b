"""Whether the files that a runner's right rests on are still those it opened.

Whoever removes or replaces `.loopwright` takes no file away from a runner that has it open: the
runner would go on with records that nobody finds any more, and its lock would keep nobody out.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.store.lock import NAME, holder

if TYPE_CHECKING:
    from collections.abc import Iterable


MOVED = (
    "the repository {old} was moved to {new} while this runner worked: its agents are stopped, "
    "their work stays. Start again in {new}: what is recorded there is gone on with"
)


class Ground:
    """The lock and the database of a runner, as they were when it had opened both."""

    def __init__(self, folder: Path, files: Iterable[Path]) -> None:
        self._folder = folder
        self._files = {os.fspath(file): _identity(os.fspath(file)) for file in files}
        self._repository = _identity(os.fspath(folder.parent))

    @classmethod
    def of(cls, database: Path) -> Ground:
        """Remember what lies there now."""
        return cls(database.parent, (database.parent / NAME, database))

    def gone(self) -> str:
        """Say which file is not there any more and what to do; nothing while all is well."""
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
                f"Put {self._folder} back as it was, or begin anew with "
                "`loopwright init --begin-anew`"
            )
        return ""

    def _moved_to(self, file: tuple[int, int]) -> Path | None:
        """Return where the repository is now, by a file in it that this process has open.

        The old place may be there again: something may have been written to it since.
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
    """Tell one file from another: () when there is none, None when nobody can tell."""
    try:
        found = os.stat(path)  # noqa: PTH116  # asked again and again while all is quiet
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError:
        return None
    return found.st_dev, found.st_ino
