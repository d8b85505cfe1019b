"""Holds each change of a setting in the audit, also one that came between two runners.

What of a setting is a secret is neither kept nor told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.masking import masked
from lifecycle.settings import Settings
from runtime.masking import Masker

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.audit import Audit
    from lifecycle.store.port import LifecycleStore

SEEN = "settings"
"""Collection with the one document of the settings as they were last seen."""


class SettingTrail:
    """Compares the settings with those seen before; what was never seen had its default.

    Who changed a file is not known: `by` is whose runner goes by it from now on.
    """

    def __init__(
        self,
        audit: Audit,
        store: LifecycleStore,
        settings: Callable[[], Settings],
        *,
        by: str,
        masker: Masker | None = None,
    ) -> None:
        self._audit = audit
        self._store = store
        self._settings = settings
        self._by = by
        self._masker = Masker() if masker is None else masker
        self._seen: Settings | None = None
        self._known: dict[str, Any] = {}

    async def begin(self) -> None:
        """Take up what an earlier runner saw, and hold what is different now."""
        seen = (await self._store.all(SEEN)).get(SEEN, {})
        self._known = Settings().model_dump(mode="json") | seen
        await self.look()
        if masked(seen, self._masker) != seen:  # kept by a runner that did not know the secret
            await self._store.put(SEEN, SEEN, self._known)

    async def look(self) -> None:
        """Hold what has changed; costs nothing while nothing has."""
        present = self._settings()
        if present is self._seen:
            return
        self._seen = present
        # Both as what is known of secrets by now has it: else one learnt since looks like a change.
        before = masked(self._known, self._masker)
        values = masked(present.model_dump(mode="json"), self._masker)
        self._known = values
        changed = {name: value for name, value in values.items() if before.get(name) != value}
        for name, value in changed.items():
            details = {"from": before.get(name), "to": value}
            await self._audit.record("setting", self._by, name, "changed", details=details)
        if changed:
            await self._store.put(SEEN, SEEN, values)
