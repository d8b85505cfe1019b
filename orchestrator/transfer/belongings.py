"""What is kept of a lifecycle beside its record: documents of other parts, and edited summaries.

Logs, and the summaries of earlier attempts, stay where they were written.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Self

from ci.forge_registry import FORGES
from ci.local.ledger import PULLS
from lifecycle.engine.retention import RETIRED
from lifecycle.judging.mutation_check import CANARIES
from lifecycle.perform.removal import REVIEW_MARKS
from lifecycle.plan import Task
from lifecycle.store.transfers import LifecycleDocument

if TYPE_CHECKING:
    from lifecycle.paths import Paths
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.masking.masker import Masker

_OF_AGENT = (CANARIES, REVIEW_MARKS)
"""Collections whose keys are ids of agents."""
_OF_BRANCH = tuple(f"ci.{forge}.heads" for forge in FORGES)
"""Collections whose keys are branches: what was pushed to a forge."""
COLLECTIONS = frozenset((*_OF_AGENT, *_OF_BRANCH, PULLS, RETIRED))
"""Of these, and no others, a document may come with a lifecycle."""


class KeptDocuments:
    """The documents of one store, read once."""

    def __init__(self, known: dict[str, dict[str, dict[str, Any]]]) -> None:
        self._known = known

    @classmethod
    async def read(cls, store: SqliteStore) -> Self:
        """Read those that may belong to lifecycles."""
        return cls({name: await store.all(name) for name in sorted(COLLECTIONS)})

    def of(self, record: AgentLifecycle) -> tuple[LifecycleDocument, ...]:
        """Return those that belong to a lifecycle, and those of tasks that it waits for."""
        branch = str(record.facts.get("branch", ""))
        wanted = [(name, record.agent_id) for name in _OF_AGENT]
        wanted += [(RETIRED, task_id) for task_id in dependencies_of(record)]
        if branch:
            wanted += [(name, branch) for name in _OF_BRANCH]
            pulls = self._known[PULLS].items()
            wanted += [(PULLS, key) for key, body in pulls if body.get("branch") == branch]
        return tuple(
            LifecycleDocument(collection=name, key=key, body=self._known[name][key])
            for name, key in wanted
            if key in self._known[name]
        )

    def taken(self, given: LifecycleDocument) -> bool:
        """Tell whether another branch has the number of a pull request."""
        here = self._known[given.collection].get(given.key)
        return (
            given.collection == PULLS
            and here is not None
            and here.get("branch") != given.body.get("branch")
        )


def belongs(given: LifecycleDocument, record: AgentLifecycle) -> bool:
    """Tell whether a document of these collections may come with this lifecycle."""
    branch = str(record.facts.get("branch", ""))
    match given.collection:
        case collection if collection in _OF_AGENT:
            return given.key == record.agent_id
        case collection if collection in _OF_BRANCH:
            return given.key == branch != ""
        case collection if collection == PULLS:
            return given.body.get("branch") == branch != ""
    return given.key in dependencies_of(record)


def dependencies_of(record: AgentLifecycle) -> tuple[str, ...]:
    """Return the tasks that the plan has it wait for."""
    with contextlib.suppress(KeyError, ValueError):
        return Task.model_validate(record.facts["task"]).dependencies
    return ()


def edited_of(paths: Paths, agent_id: str, masker: Masker) -> dict[str, str]:
    """Return the texts that a person wrote in the place of summaries, by attempt."""
    folder = paths.edited(agent_id, 0).parent
    found = sorted(folder.glob("*.edited.md"))
    return {
        each.name.partition(".")[0]: masker.mask(each.read_text("utf-8", errors="replace"))
        for each in found
    }
