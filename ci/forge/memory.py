"""What a provider remembers about a forge between two requests, also across a restart.

Owns the documents of `ci.forge.provider` and their form. Decides nothing: losing any of it costs a
repeated request or event, never data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci.json_model import JsonModel
    from ci.ports import Documents

FORGOTTEN_AFTER = 30 * 86_400.0
"""Seconds since the last change; what is about a pull request is kept as long after its end."""
UNENDED_FOR = 366 * 86_400.0
"""Seconds for which that is kept where no end was ever noticed."""
_OF_PULLS = ("heads", "told", "queue", "written")
_FORGOTTEN = ("heads", "seen", "told", "flaky", "queue", "written", "replies", "issues")
OWED_FOR = 7 * 86_400.0
"""Seconds for which the removal of a merged branch is tried again."""
HEADS_KEPT = 50
"""Earlier heads of a branch that are remembered as ours."""


class OwedReply(NamedTuple):
    """What an agent answered to a reviewer, and is not known to be posted yet."""

    mark: str
    """Stands in the posted text, so that it is found again."""
    agent_id: str
    branch: str
    sha: str
    """The commit that has to be at the forge before."""
    remark: str
    """Its id, as the agent was told."""
    text: str
    asked_at: float | None
    """When the forge was asked to post it, while the outcome is unknown."""


class OwedRemoval(NamedTuple):
    """A branch that is to be removed at the forge, as it is merged."""

    branch: str
    number: int
    """Of its pull request."""
    event_id: str
    """Of the event that tells the merge: before it is stored, nothing is removed."""
    at: float
    """When the merge was noticed."""


class Memory:
    """Documents in a few collections, read once and written through."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self._name = name
        self._now = now
        self._documents: Documents | None = None
        self._collections: dict[str, dict[str, dict[str, Any]]] = {}

    async def open(self, documents: Documents) -> None:
        """Read the documents, and delete old ones."""
        self._documents = documents
        for kind in (*_FORGOTTEN, "waits"):
            self._collections[kind] = dict(await documents.all(self._collection(kind)))
        for kind in _FORGOTTEN:
            for key, body in tuple(self._collections[kind].items()):
                if self._is_old(kind, body):
                    await self._forget(kind, key)
        for key in tuple(self._collections["waits"]):
            # Whatever still waits registers again.
            await self._forget("waits", key)

    def _is_old(self, kind: str, body: dict[str, Any]) -> bool:
        """Return whether nobody needs it any more: told once is not told again."""
        if kind == "issues" and body.get("standing", {}).get("stage") != "over":
            return False
        open_still = kind in _OF_PULLS and not body.get("ended")
        kept_for = UNENDED_FOR if open_still else FORGOTTEN_AFTER
        return float(body.get("at", 0.0)) < self._now() - kept_for

    async def ended(self, number: int, branch: str) -> None:
        """Record that a pull request is merged or closed; more work on its branch undoes that."""
        keys = {kind: branch if kind == "heads" else str(number) for kind in _OF_PULLS}
        for kind, key in keys.items():
            body = self._body(kind, key)
            if body and not body.get("ended"):
                await self._keep(kind, key, {**body, "ended": True})

    # --- heads to be pushed ----------------------------------------------------------------

    def wanted(self, branch: str) -> str:
        """Return the commit to be pushed to the branch; empty if there is none."""
        return str(self._body("heads", branch).get("sha", ""))

    def there(self, branch: str) -> str | None:
        """Return the last known remote head of the branch."""
        return self._body("heads", branch).get("there")

    def ours(self, branch: str, sha: str) -> bool:
        """Return whether this was a head of the branch pushed by us."""
        body = self._body("heads", branch)
        return sha == body.get("sha") or sha in body.get("before", ())

    async def want(self, branch: str, sha: str) -> None:
        """Record a new head; the same again changes nothing."""
        body = self._body("heads", branch)
        if body.get("sha") != sha:
            before = [*body.get("before", ()), *filter(None, [body.get("sha")])][-HEADS_KEPT:]
            fresh = {"sha": sha, "before": before, "ended": False}
            await self._keep("heads", branch, {**body, **fresh})
        await self.saw(sha)

    async def pushed(self, branch: str, sha: str) -> None:
        """Record the remote head of the branch."""
        await self._keep("heads", branch, {**self._body("heads", branch), "there": sha})

    def updated(self, branch: str, sha: str) -> str:
        """Return the commit that brought ours up to date with its base; ours if none did."""
        ours, newer = self._body("heads", branch).get("updated") or ("", "")
        return str(newer) if ours == sha else sha

    def earlier(self, branch: str, newer: str) -> str:
        """Return our commit that this one brought up to date; itself if it did not."""
        ours, known = self._body("heads", branch).get("updated") or ("", "")
        return str(ours) if known == newer else newer

    def is_there(self, branch: str, sha: str) -> bool:
        """Return whether the remote branch is at our commit, or at one that brought it up.

        Or it was there, and the branch was removed after its merge.
        """
        merged = self._body("heads", branch).get("removed_at") == sha
        return merged or self.there(branch) in {sha, self.updated(branch, sha)}

    async def removed(self, branch: str) -> None:
        """Record that the remote branch was removed after the merge of what it was to be at."""
        wanted = self.wanted(branch)
        await self._change_head(branch, there=None, removed_at=wanted, owed_removal=None)

    def owed_removals(self) -> tuple[OwedRemoval, ...]:
        """Return the branches that are to be removed there once their merge is stored."""
        heads = self._collections.get("heads", {})
        owed = {branch: body.get("owed_removal") for branch, body in heads.items()}
        known = (OwedRemoval(branch, *facts) for branch, facts in owed.items() if facts)
        return tuple(each for each in known if each.at > self._now() - OWED_FOR)

    async def owe_removal(self, branch: str, number: int, event_id: str) -> None:
        """Record that the branch of a merged pull request is to be removed there."""
        await self._change_head(branch, owed_removal=[number, event_id, self._now()])

    async def removal_settled(self, branch: str) -> None:
        """Record that the branch is not to be removed any more."""
        await self._change_head(branch, owed_removal=None)

    async def brought_up(self, branch: str, sha: str, newer: str) -> None:
        """Record the commit that brought ours up to date with its base."""
        before = [*self._body("heads", branch).get("before", ()), newer][-HEADS_KEPT:]
        await self._change_head(branch, updated=[sha, newer], there=newer, before=before)
        await self.saw(newer)

    # --- pull requests that were asked for ------------------------------------------------------

    def asked_for(self, branch: str) -> float | None:
        """Return when a pull request was asked for whose outcome is not known for sure."""
        return self._body("heads", branch).get("asked_for")

    def made(self, branch: str) -> frozenset[int]:
        """Return the numbers of the pull requests that we opened for the branch."""
        return frozenset(self._body("heads", branch).get("made", ()))

    async def ask_for(self, branch: str, words: str) -> None:
        """Record that a pull request of these words is asked for, before it is."""
        unheard = [*self._unheard(branch), (words, self._now())]
        await self._change_head(branch, asked_for=self._now(), unheard=unheard, ended=False)

    def unheard(self, branch: str, *, since: float) -> tuple[str, ...]:
        """Return the words of what was asked for since then, and whose outcome is not known."""
        return tuple(words for words, at in self._unheard(branch) if at >= since)

    async def heard_of(self, branch: str, words: str) -> None:
        """Record that the outcome of the newest order in these words is known."""
        left = self._unheard(branch)
        times = [at for said, at in left if said == words]
        if times:
            left.remove((words, times[-1]))
            await self._change_head(branch, unheard=left)

    def _unheard(self, branch: str) -> list[tuple[str, float]]:
        told = self._body("heads", branch).get("unheard") or ()
        return [(str(words), float(at)) for words, at in told]

    async def made_one(self, branch: str, number: int) -> None:
        """Record a pull request that we opened."""
        await self._change_head(branch, made=sorted({*self.made(branch), number}))

    def written(self, number: int) -> tuple[str, str] | None:
        """Return the fingerprints of the title and text that we wrote last; None if we did not."""
        found = self._body("written", str(number)).get("prints")
        return None if found is None else (str(found[0]), str(found[1]))

    async def wrote(self, number: int, title: str, body: str) -> None:
        """Record the fingerprints of what we wrote."""
        told = self._body("written", str(number))
        await self._keep("written", str(number), {**told, "prints": [title, body]})

    def owes_people(self, number: int) -> bool:
        """Return whether people are still to be asked to look at a pull request of ours."""
        return bool(self._body("written", str(number)).get("owes_people"))

    async def owe_people(self, number: int, *, owed: bool) -> None:
        """Record whether people are still to be asked."""
        told = self._body("written", str(number))
        await self._keep("written", str(number), {**told, "owes_people": owed})

    async def answered(self, branch: str) -> None:
        """Record that the outcome is known."""
        await self._change_head(branch, asked_for=None)

    async def _change_head(self, branch: str, **facts: object) -> None:
        await self._keep("heads", branch, {**self._body("heads", branch), **facts})

    # --- commits ------------------------------------------------------------------------------

    def since(self, sha: str) -> float:
        """Return when the commit was first seen."""
        return float(self._body("seen", sha).get("at", self._now()))

    async def saw(self, sha: str) -> None:
        """Record when the commit was first seen."""
        if sha and not self._body("seen", sha):
            await self._keep("seen", sha, {})

    def rerun(self, sha: str) -> tuple[float, tuple[str, ...]] | None:
        """Return when failed checks of the commit were rerun, and which."""
        found = self._body("seen", sha).get("rerun")
        return None if found is None else (float(found["at"]), tuple(found["refs"]))

    async def ran_again(self, sha: str, refs: Sequence[str]) -> None:
        """Record that failed checks were rerun, so that they are not run a third time."""
        rerun = {"at": self._now(), "refs": list(refs)}
        await self._keep("seen", sha, {**self._body("seen", sha), "rerun": rerun})

    def flaked(self, name: str) -> int:
        """Return how often a check of this name failed and then passed on the same commit."""
        return int(self._body("flaky", name).get("times", 0))

    async def judged(self, sha: str, failed: Sequence[str], passed: Sequence[str]) -> None:
        """Record which checks of a commit failed, and those that passed after all."""
        red = set(self._body("seen", sha).get("red", ()))
        for name in sorted(red.intersection(passed)):
            await self._keep("flaky", name, {"times": self.flaked(name) + 1})
        left = sorted(red.difference(passed).union(failed))
        if left != sorted(red):
            await self._keep("seen", sha, {**self._body("seen", sha), "red": left})

    # --- merge queues -------------------------------------------------------------------------

    def queue(self, number: int) -> list[dict[str, Any]]:
        """Return the entries of a pull request into merge queues, the newest last."""
        return list(self._body("queue", str(number)).get("known") or ())

    async def keep_queue(self, number: int, entries: Sequence[JsonModel]) -> None:
        """Record its entries."""
        told = [entry.model_dump() for entry in entries]
        await self._keep("queue", str(number), {"known": told})

    # --- issues of tasks ----------------------------------------------------------------------

    def issue(self, key: str) -> dict[str, Any]:
        """Return what is known of a lifecycle's issue; empty if nothing is."""
        return self._body("issues", key)

    def issues(self) -> tuple[dict[str, Any], ...]:
        """Return what is known of all."""
        return tuple(self._collections.get("issues", {}).values())

    async def keep_issue(self, key: str, body: dict[str, Any]) -> None:
        """Record what is known of it."""
        await self._keep("issues", key, body)

    # --- remarks ------------------------------------------------------------------------------

    def told(self, number: int) -> frozenset[str]:
        """Return the keys of the comments that were published already."""
        return frozenset(self._body("told", str(number)).get("remarks", ()))

    async def tell(self, number: int, keys: Sequence[str]) -> None:
        """Record these comments as published."""
        known = sorted({*self.told(number), *keys})
        await self._keep("told", str(number), {"remarks": known})

    async def untell(self, number: int, keys: Sequence[str]) -> None:
        """Remove these from the published ones, so that they count as new again."""
        left = sorted(self.told(number) - set(keys))
        await self._keep("told", str(number), {"remarks": left})

    def owed_replies(self) -> tuple[OwedReply, ...]:
        """Return the replies that are not known to be posted."""
        owed = self._collections.get("replies", {}).values()
        return tuple(OwedReply(*body["reply"]) for body in owed)

    async def owe_reply(self, reply: OwedReply) -> None:
        """Record a reply that is to be posted."""
        await self._keep("replies", reply.mark, {"reply": list(reply)})

    async def reply_settled(self, mark: str) -> None:
        """Forget a reply that is posted, or never will be."""
        await self._forget("replies", mark)

    # --- the status of each wait, for people --------------------------------------------------

    async def stands(
        self,
        key: str,
        text: str,
        *,
        trouble: bool,
        next_try: float | None,
        unanswered: bool = False,
    ) -> None:
        """Record the status of a wait; written only when it changes.

        `unanswered`: the trouble is that the forge gives no answer that could be understood.
        """
        body = self._body("waits", key)
        fresh = {"place": self._name, "text": text, "trouble": trouble, "next_try": next_try}
        fresh["unanswered"] = unanswered
        if body.get("text") == text and body.get("trouble") == trouble and not next_try:
            return
        since = body.get("since") if body.get("text") == text else None
        await self._keep("waits", key, {**fresh, "since": since or self._now()})

    async def over(self, key: str) -> None:
        """Delete the status of a wait."""
        if self._body("waits", key):
            await self._forget("waits", key)

    # --- documents ----------------------------------------------------------------------------

    def _collection(self, kind: str) -> str:
        return "ci.waits" if kind == "waits" else f"ci.{self._name}.{kind}"

    def _body(self, kind: str, key: str) -> dict[str, Any]:
        return self._collections.get(kind, {}).get(key, {})

    async def _keep(self, kind: str, key: str, body: dict[str, Any]) -> None:
        # Of a commit it tells when it was first seen, of all else when it was last changed.
        since = body.get("at") if kind == "seen" else None
        body = {**body, "at": self._now() if since is None else since}
        self._collections.setdefault(kind, {})[key] = body
        if self._documents is not None:
            await self._documents.put(self._collection(kind), key, body)

    async def _forget(self, kind: str, key: str) -> None:
        self._collections[kind].pop(key, None)
        if self._documents is not None:
            await self._documents.delete(self._collection(kind), key)
