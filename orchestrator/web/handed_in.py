"""Keeps what workers hand in where this machine's own files of attempts are.

Masked once more, written whole or not at all, and only for an attempt that is the worker's. Must
not know how it travels.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from lifecycle.errors import ConflictingUpdateError, StoreError
from lifecycle.machine.states import attempt_of
from lifecycle.record import worker_of
from lifecycle.store.damaged_records import RecordDamagedError
from lifecycle.worker.attempt_files import AttemptFile, place_of
from lifecycle.worker.sign_of_life import SignOfLife
from orchestrator.errors import OrchestratorError
from orchestrator.web.edge.problems import Problem, invalid, refused, store_failed
from orchestrator.web.operator import found
from runtime.private_files import make_private, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.paths import Paths
    from lifecycle.record import AgentLifecycle
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.edge.worker_uploads import Upload
    from orchestrator.web.live.search_keeper import SearchKeeper
    from runtime.masking.masker import Masker


WHAT_IS_SAID = "a worker says name, machine, version, slots, lease and now, and may say more"


class WorkerFileError(OrchestratorError):
    """A file of a worker's attempt is not kept."""


class HandedIn:
    """Files of attempts that workers hand in."""

    def __init__(self, runner: RunnerPort, search: SearchKeeper) -> None:
        self._runner, self._search = runner, search

    async def seen(self, body: bytes) -> None:
        """Take a sign of life of a worker."""
        runner = self._runner
        try:
            sign = SignOfLife.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise invalid(f"{place or 'the body'}: {first['msg']}", WHAT_IS_SAID) from error
        workers, mask = runner.store.workers, runner.engine.shared.masker.mask
        row = sign.row(runner.now())
        try:
            if sign.leaves:
                await workers.left(row.name, row.machine)
            else:
                await workers.seen(replace(row, lacks=tuple(map(mask, row.lacks))))
        except ConflictingUpdateError as error:
            raise refused(str(error), "give this worker another name") from error
        except StoreError as error:
            raise store_failed("the records cannot be written at present") from error

    async def check(self, upload: Upload) -> None:
        """Refuse what is not this worker's to hand in."""
        await self._record(upload)

    async def keep(self, upload: Upload, content: bytes) -> bool:
        """Store it; tell whether that changed anything."""
        # Once more: it may have been given to another worker while the body came.
        record, runner = await self._record(upload), self._runner
        masker, paths = runner.engine.shared.masker, runner.engine.machine.paths
        file = AttemptFile(record.agent_id, upload.attempt, upload.name)
        try:
            changed = await keep(paths, masker, file, content)
        except WorkerFileError as error:
            raise Problem(422, "invalid", str(error), "hand in what the attempt left") from error
        except OSError as error:
            raise store_failed(f"it cannot be written here: {error.strerror}") from error
        if changed and file.name == "summary":
            await self._search.take_in_again(record.cursor)
        return changed

    async def _record(self, upload: Upload) -> AgentLifecycle:
        try:
            record = await found(self._runner, upload.agent_id)
            require_own(record, upload.birth, upload.attempt, upload.worker)
        except RecordDamagedError as error:
            raise Problem(503, "store", str(error), "`loopwright doctor` says more") from error
        except StoreError as error:
            raise store_failed("the records cannot be read at present") from error
        except WorkerFileError as error:
            told = "drop it: it is another's, or the attempt was never begun here"
            raise Problem(403, "not_yours", str(error), told) from error
        return record


def require_own(record: AgentLifecycle, birth: str, attempt: int, worker: str) -> None:
    """Refuse a file of an attempt that is not this worker's; WorkerFileError says whose it is.

    The `birth` is that of the lifecycle that it is of; empty where nobody said it.
    """
    if birth and birth != record.birth:
        raise WorkerFileError(
            f"{record.agent_id} has another lifecycle now than the one that this is of"
        )
    latest = attempt_of(record.work) if record.work is not None else 0
    if attempt > latest:
        raise WorkerFileError(
            f"{record.agent_id} has no attempt {attempt} yet: it is at attempt {latest}"
        )
    whose = worker_of(record, attempt)
    if whose != worker or not worker:
        theirs = f"worker {whose}" if whose else "the coordinator itself"
        raise WorkerFileError(
            f"attempt {attempt} of {record.agent_id} is not of worker {worker or '(no name)'}: "
            f"{theirs} has it"
        )


async def keep(paths: Paths, masker: Masker, file: AttemptFile, content: bytes) -> bool:
    """Store it; tell whether that changed anything. WorkerFileError for a name that is none."""
    place = place_of(paths, file)
    if place is None:
        raise WorkerFileError(
            f"{file.name!r} is no file of an attempt; there are log, summary, prompt, snapshot, "
            "and gate-N, merge-N and setup-N"
        )
    return await asyncio.to_thread(_write, paths.root, place, masker, content)


def _write(root: Path, place: Path, masker: Masker, content: bytes) -> bool:
    clean = masker.mask_bytes(content)
    make_private(place.parent)
    if place.parent.resolve() != root.resolve() / place.parent.relative_to(root):
        raise WorkerFileError(
            f"{place.parent} is or lies behind a symbolic link, so nothing was written: remove it"
        )
    if place.is_file() and not place.is_symlink() and place.read_bytes() == clean:
        return False
    write_whole(place, clean)
    place.chmod(0o600)
    return True
