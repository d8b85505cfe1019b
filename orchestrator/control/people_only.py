"""Orders that only a person gives: refused to a process inside an attempt or a gate.

Owns the refusal and its entry in the audit. How such a process is known is for
`runtime.processes.inside_attempt`. At level process this stops accidents, not an
attack: see docs/how-to/sandbox.md.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lifecycle.audit import Audit
from lifecycle.clock import SystemClock
from lifecycle.errors import LifecycleError
from lifecycle.paths import Paths
from lifecycle.record import mark_of
from lifecycle.store.lock import holder
from lifecycle.store.plain_queries import read_facts
from orchestrator.config.known_secrets import masker_of
from orchestrator.control.open_store import store_of
from orchestrator.errors import OrchestratorError
from runtime.proc_table import MARK_VARIABLE
from runtime.processes import inside_attempt

if TYPE_CHECKING:
    from pathlib import Path

SOMEBODY = "an agent or a gate"


class PeopleOnlyError(OrchestratorError):
    """An agent or a gate gave an order that only a person gives."""


def require_person(repo: Path, order: str, subject: str = "") -> None:
    """Refuse an order for this repository to a process of one of its attempts or gates."""
    whose = inside_of(repo)
    if not whose:
        return
    said = refusal(order, whose)
    if os.environ.get(MARK_VARIABLE):
        said += (
            f". If you are a person: this shell was started by an agent ({MARK_VARIABLE} is set); "
            "use a new terminal"
        )
    _note(repo, order, whose, subject or order, said)
    raise PeopleOnlyError(said)


def refusal(order: str, whose: str) -> str:
    """Say that it is refused, and what to do instead."""
    return (
        f"only a person may {order}, and this was asked from inside the work of {whose}; end the "
        "attempt with a breakpoint that says what you need (`loopwright signal`)"
    )


def inside_of(repo: Path) -> str:
    """Return whose attempt or gate of this repository we are inside of; nothing for a person."""
    said: dict[str, Any] = {}
    with suppress(OSError):  # the command that needs that folder reports it
        said = holder(Paths.of(repo).root) or {}
    here = said.get("host") == os.uname().nodename
    pid, start = said.get("pid"), said.get("started")
    runner = None
    if here and isinstance(pid, int):
        runner = inside_attempt.RunnerIdentity(pid, start if isinstance(start, int) else None)
    lives = _Lives(repo)
    mark = inside_attempt.mark_around(os.getpid(), runner, lives.own)
    return lives.agent_of(mark) if mark else ""


def peer_of(repo: Path, client_port: int, server_port: int) -> str:
    """Return whose attempt or gate of this runner speaks from this port; nothing for a person."""
    mark = inside_attempt.peer_mark(client_port, server_port)
    return _Lives(repo).agent_of(mark) if mark else ""


class _Lives:
    """The lifecycles of a repository, by how the marks of their processes begin."""

    def __init__(self, repo: Path) -> None:
        self._database = Paths.of(repo).database
        self._read: dict[str, str] | None = None

    def own(self, mark: str) -> bool:
        """Tell whether a mark is that of an attempt or gate of this repository."""
        return self.agent_of(mark) != SOMEBODY

    def agent_of(self, mark: str) -> str:
        """Return the agent that a mark is of."""
        if self._read is None:
            self._read = {}
            with suppress(LifecycleError):  # without records nobody is at work
                rows = read_facts(self._database)
                self._read = {mark_of(agent_id, birth): agent_id for agent_id, birth, *_ in rows}
        found = (agent for start, agent in self._read.items() if mark.startswith(start))
        return next(found, SOMEBODY)


def _note(repo: Path, order: str, whose: str, subject: str, said: str) -> None:
    """Enter the refusal in the audit; where it cannot be written, it is refused all the same."""
    with suppress(LifecycleError, OSError):
        asyncio.run(_noted(repo, order.split(maxsplit=1)[0], whose, subject, said))


async def _noted(repo: Path, *entry: Any) -> None:
    order, whose, subject, said = entry
    async with store_of(repo) as store:
        audit = Audit(store.trail, now=SystemClock().now, masker=masker_of(os.environ))
        await audit.record(order, whose, subject, "refused", said)
