"""Records each change of a setting in the audit, also one made between two runners.

Records what counts as approved, and tells once of what waits for a person. An approval is entered
by who approves, and not once more here. What of a setting is a secret is neither kept nor told.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lifecycle.mask_values import masked
from lifecycle.settings import Settings
from orchestrator.approval.agent_commits import APPROVE, named
from orchestrator.approval.restricting_values import name_of
from orchestrator.config.settings import setting_alone
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.audit import Audit
    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.approval.approvals import Approvals
    from runtime.masking.masker import Masker

SEEN = "settings"
"""Collection with the one document of the settings as they were last seen."""


class SettingsAudit:
    """Compares the settings with those seen before; what was never seen had its default.

    Who changed a file is not known: `by` is whose runner goes by it from now on.
    """

    def __init__(  # noqa: PLR0913  # all by name
        self,
        audit: Audit,
        store: SqliteStore,
        settings: Callable[[], Settings],
        *,
        by: str,
        masker: Masker,
        now: Callable[[], float],
        tell: Callable[[str], None],
        approvals: Approvals | None = None,
    ) -> None:
        self._audit = audit
        self._store = store
        self._settings = settings
        self._by = by
        self._masker = masker
        self._approvals = approvals
        self._now = now
        self._tell = tell
        self._waiting: set[str] = set()
        self._seen: Settings | None = None
        self._known: dict[str, Any] = {}

    async def begin(self) -> None:
        """Read what an earlier runner saw, and record what is different now."""
        seen = (await self._store.all(SEEN)).get(SEEN, {})
        self._known = Settings().model_dump(mode="json") | seen
        await self.look()
        if masked(seen, self._masker) != seen:  # kept by a runner that did not know the secret
            await self._store.put(SEEN, SEEN, self._known)

    async def look(self) -> None:
        """Record what has changed; costs nothing while nothing has."""
        present = self._settings()
        if present is self._seen:
            return
        await self.keep()
        self._seen = present
        # Both as what is known of secrets by now has it: else one learnt since looks like a change.
        before = masked(self._known, self._masker)
        values = masked(present.model_dump(mode="json"), self._masker)
        self._known = values
        changed = {name: value for name, value in values.items() if before.get(name) != value}
        for name, value in changed.items():
            if await self._is_entered(name, value):
                continue
            details = {"from": before.get(name), "to": value}
            await self._audit.record("setting", self._by, name, "changed", details=details)
        if changed:
            await self._store.put(SEEN, SEEN, values)

    async def keep(self) -> None:
        """Record what counts of files that were read again, and show what began to wait."""
        if self._approvals is not None:
            await self._keep(self._approvals)

    async def _is_entered(self, name: str, value: Any) -> bool:
        """Tell whether the newest entry about a setting is its approval, with this very value."""
        newest = await self._store.trail.newest_of("setting", name)
        if newest is None or newest.outcome != "approved":
            return False
        given = json.loads(newest.details)["to"]
        try:
            approved = Settings() if given is None else setting_alone(name, given)
        except ConfigError:
            return False
        return bool(masked(approved.model_dump(mode="json")[name], self._masker) == value)

    async def _keep(self, approvals: Approvals) -> None:
        """Record what counts, and show what began to wait."""
        first = approvals.first
        fresh = await approvals.keep(self._store, by=self._by, at=self._now(), masker=self._masker)
        if first and fresh:
            self._tell(
                f"As they are, these count as approved: {named(fresh)}; what agents change of "
                f"them waits for {APPROVE}"
            )
        waiting = {cell: each for cell, each in approvals.held.items() if each.agent_id}
        begun = [each for cell, each in waiting.items() if cell not in self._waiting]
        self._waiting = set(waiting)
        for each in begun:
            file = name_of(each.cell)[0]
            why = f"in {file}, by the work of {each.agent_id}"
            details = {"file": file, "from": each.approved, "to": each.value}
            await self._audit.record(
                "setting", each.agent_id, each.name, "held", why, details=details
            )
        if begun:
            agents = ", ".join(sorted({each.agent_id for each in begun}))
            what = named(each.cell for each in begun)
            self._tell(f"Not in force: {what}, changed by the work of {agents}; see {APPROVE}")
