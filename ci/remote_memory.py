"""What a provider remembers about a forge between two questions, also over a restart.

Owns the documents of `ci.remote` and their form. Decides nothing: forgetting any of it costs a
question asked twice or a remark told twice, never a loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci.interface import Documents

FORGOTTEN_AFTER = 30 * 86_400.0
HEADS_KEPT = 50
"""Earlier heads of a branch that are still known to be ours."""


class Memory:
    """Documents in four drawers, read once and written through."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self._name = name
        self._now = now
        self._documents: Documents | None = None
        self._drawers: dict[str, dict[str, dict[str, Any]]] = {}

    async def open(self, documents: Documents) -> None:
        """Read what was remembered, and forget what is old."""
        self._documents = documents
        for drawer in ("heads", "seen", "told", "waits"):
            self._drawers[drawer] = dict(await documents.all(self._collection(drawer)))
        oldest = self._now() - FORGOTTEN_AFTER
        for drawer in ("heads", "seen", "told"):
            for key, body in tuple(self._drawers[drawer].items()):
                if float(body.get("at", 0.0)) < oldest:
                    await self._forget(drawer, key)
        for key in tuple(self._drawers["waits"]):
            # Who still waits will say so again.
            await self._forget("waits", key)

    # --- heads that we want to have there -----------------------------------------------------

    def wanted(self, branch: str) -> str:
        """Return the commit that the branch is to be at there; nothing if none was named."""
        return str(self._body("heads", branch).get("sha", ""))

    def there(self, branch: str) -> str | None:
        """Return where we last knew the branch to be there."""
        return self._body("heads", branch).get("there")

    def ours(self, branch: str, sha: str) -> bool:
        """Tell whether this was a head of the branch that came from here."""
        body = self._body("heads", branch)
        return sha == body.get("sha") or sha in body.get("before", ())

    async def want(self, branch: str, sha: str) -> None:
        """Note a new head; the same again changes nothing."""
        body = self._body("heads", branch)
        if body.get("sha") != sha:
            before = [*body.get("before", ()), *filter(None, [body.get("sha")])][-HEADS_KEPT:]
            await self._keep("heads", branch, {**body, "sha": sha, "before": before})
        await self.saw(sha)

    async def pushed(self, branch: str, sha: str) -> None:
        """Note where the branch is there now."""
        await self._keep("heads", branch, {**self._body("heads", branch), "there": sha})

    # --- commits ------------------------------------------------------------------------------

    def since(self, sha: str) -> float:
        """Return when we first heard of the commit."""
        return float(self._body("seen", sha).get("at", self._now()))

    async def saw(self, sha: str) -> None:
        """Note when we first heard of the commit."""
        if sha and not self._body("seen", sha):
            await self._keep("seen", sha, {})

    def rerun(self, sha: str) -> tuple[float, tuple[str, ...]] | None:
        """Return when failed checks of the commit were run once more, and which."""
        found = self._body("seen", sha).get("rerun")
        return None if found is None else (float(found["at"]), tuple(found["refs"]))

    async def ran_again(self, sha: str, refs: Sequence[str]) -> None:
        """Note that failed checks were run once more, so that they are not a third time."""
        rerun = {"at": self._now(), "refs": list(refs)}
        await self._keep("seen", sha, {**self._body("seen", sha), "rerun": rerun})

    # --- remarks ------------------------------------------------------------------------------

    def told(self, number: int) -> frozenset[str]:
        """Return the keys of the remarks that were told already."""
        return frozenset(self._body("told", str(number)).get("remarks", ()))

    async def tell(self, number: int, keys: Sequence[str]) -> None:
        """Note that these remarks are told."""
        known = sorted({*self.told(number), *keys})
        await self._keep("told", str(number), {"remarks": known})

    async def untell(self, number: int, keys: Sequence[str]) -> None:
        """Forget that these were told: they would be news again."""
        left = sorted(self.told(number) - set(keys))
        await self._keep("told", str(number), {"remarks": left})

    # --- what each wait stands at, for people -------------------------------------------------

    async def stands(self, key: str, text: str, *, trouble: bool, next_try: float | None) -> None:
        """Note how a wait stands; written only when that changes."""
        body = self._body("waits", key)
        fresh = {"place": self._name, "text": text, "trouble": trouble, "next_try": next_try}
        if body.get("text") == text and body.get("trouble") == trouble and not next_try:
            return
        since = body.get("since") if body.get("text") == text else None
        await self._keep("waits", key, {**fresh, "since": since or self._now()})

    async def over(self, key: str) -> None:
        """Forget how a wait stood."""
        if self._body("waits", key):
            await self._forget("waits", key)

    # --- the drawers --------------------------------------------------------------------------

    def _collection(self, drawer: str) -> str:
        return "ci.waits" if drawer == "waits" else f"ci.{self._name}.{drawer}"

    def _body(self, drawer: str, key: str) -> dict[str, Any]:
        return self._drawers.get(drawer, {}).get(key, {})

    async def _keep(self, drawer: str, key: str, body: dict[str, Any]) -> None:
        body.setdefault("at", self._now())
        self._drawers.setdefault(drawer, {})[key] = body
        if self._documents is not None:
            await self._documents.put(self._collection(drawer), key, body)

    async def _forget(self, drawer: str, key: str) -> None:
        self._drawers[drawer].pop(key, None)
        if self._documents is not None:
            await self._documents.delete(self._collection(drawer), key)
