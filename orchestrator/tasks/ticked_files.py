"""Takes ticks out of a checkout while a merge changes the same file, and makes them again then.

What is taken out is written down before, so that it is made again after a crash. A file that
differs from its commit in anything but ticks is the user's, and not touched.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.paths import Paths
from orchestrator.tasks.found import edited
from orchestrator.tasks.sources import form_for
from orchestrator.tasks.ticks import alone, tick_in
from runtime.private_files import write_whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from runtime.own_edits import FileContent

_ENDINGS = (".md", ".markdown", ".mdx", ".json")
_ASIDE = "ticks-aside.json"


class TickedFiles:
    """The ticks in the checkouts of one repository, as `runtime.own_edits.OwnEdits`."""

    def __init__(self, repo: Path) -> None:
        self._repo = repo
        self._journal = Paths.of(repo).root / _ASIDE

    @asynccontextmanager
    async def aside(
        self,
        folder: Path,
        names: Sequence[str],
        committed: FileContent,
    ) -> AsyncIterator[None]:
        """Take the ticks out of these files, and make them again in what is there then."""
        found = await self._ticks(folder, names, committed)
        try:
            if found:
                # What cannot be written, as on a full disk, stays: then git refuses the merge.
                with suppress(OSError):
                    await asyncio.to_thread(self._take_out, folder, found)
            yield
        finally:
            if found:
                with suppress(OSError):  # noted, and made again by the next runner
                    await asyncio.to_thread(self.make_again)

    async def are_all(
        self,
        folder: Path,
        names: Sequence[str],
        committed: FileContent,
    ) -> bool:
        """Tell whether these files differ from the commit by ticks alone."""
        return len(await self._ticks(folder, names, committed)) == len(names)

    def make_again(self) -> None:
        """Make the ticks that were taken out, also by a runner that was killed meanwhile."""
        if not self._journal.exists():
            return
        with alone(self._repo):
            try:
                noted = json.loads(self._journal.read_bytes())
            except FileNotFoundError:
                return
            except ValueError:  # cut short by a loss of power: nobody knows what it named
                noted = {"files": {}}
            for name, keys in noted["files"].items():
                path = Path(noted["folder"]) / name
                for key in keys if path.is_file() and not path.is_symlink() else ():
                    try:
                        tick_in(path, key, "")
                    except PlanError:  # the merge made something else of it
                        break
            self._journal.unlink()

    def _take_out(self, folder: Path, found: Mapping[str, tuple[bytes, list[str]]]) -> None:
        self.make_again()
        noted = {"folder": str(folder), "files": {name: keys for name, (_, keys) in found.items()}}
        with alone(self._repo):
            write_whole(self._journal, json.dumps(noted).encode())
            for name, (content, _) in found.items():
                write_whole(folder / name, content)

    async def _ticks(
        self,
        folder: Path,
        names: Sequence[str],
        committed: FileContent,
    ) -> dict[str, tuple[bytes, list[str]]]:
        """Return what each file is without its ticks, and their keys, where that is all."""
        found: dict[str, tuple[bytes, list[str]]] = {}
        for name in names:
            path = folder / name
            if not name.lower().endswith(_ENDINGS) or path.is_symlink() or not path.is_file():
                continue
            before, now = await committed(name), path.read_bytes()
            if before is None:
                continue
            if b"\r\n" in now and b"\r\n" not in before:
                before = before.replace(b"\n", b"\r\n")
            if before != now and (keys := _only_ticks(path.name, before, now)):
                found[name] = (before, keys)
        return found


def _only_ticks(name: str, before: bytes, now: bytes) -> list[str]:
    """Return the keys of the tasks that were ticked, if nothing else was changed."""
    try:
        old, new = before.decode(), now.decode()
        form = form_for(name, old)
        if form is None:
            return []
        done = {each.key for each in form.read(old, name).tasks if each.left_out}
        keys = [
            each.key
            for each in form.read(new, name).tasks
            if each.left_out and each.key not in done
        ]
        for key in keys:
            old = edited(old, form.tick(old, key, "").edits)
    except (PlanError, UnicodeDecodeError):
        return []
    return keys if old == new else []
