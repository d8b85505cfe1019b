"""How `loopwright pr` reaches the pull requests, on this machine or at a forge.

A live runner is asked through documents of the store, so that its loops hear of it at once; on a
stopped repository the provider is started here for a moment. What may be merged is its business.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from ci.errors import CIError
from ci.interface import USUAL_TERMS, MergeTerms, PullRequest
from ci.local_ledger import BUILDS, PULLS
from ci.local_records import Build, Pull
from ci.verdict import judge, judge_checks
from lifecycle.errors import LifecycleError, RepositoryBusyError
from lifecycle.masking import masked
from lifecycle.paths import Paths
from orchestrator import wiring
from orchestrator.merges import OURS, with_along
from orchestrator.providers import outside
from orchestrator.reading import runner_of, store_of
from orchestrator.requests import LOOK_EVERY, UnansweredError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci.forge import Forge
    from ci.interface import CIProvider
    from lifecycle.store.port import LifecycleStore
    from orchestrator.providers import Makings
    from runtime.masking import Masker

ORDERS = "pr.orders"
SERVE_EVERY = 1.0
"""Seconds between two looks of a live runner for orders; the list is almost always empty."""
Action = Literal["merge", "close"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an order."""

    done: bool
    text: str


class Desk:
    """Serves the orders that people leave for a live runner."""

    def __init__(
        self,
        store: LifecycleStore,
        provider: CIProvider,
        tell: Callable[[str], None],
        masker: Masker,
    ) -> None:
        self._store = store
        self._masker = masker
        self._provider = provider
        self._tell = tell
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._serving = asyncio.get_running_loop().create_task(self._serve(), name="pr desk")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _serve(self) -> None:
        while True:
            for key, order in (await self._store.all(ORDERS)).items():
                if "answer" in order:
                    continue
                terms = MergeTerms(**order.get("terms", {}))
                await self._store.put(ORDERS, key, {**order, "begun": True})
                answer = await carry_out(
                    self._provider, order["action"], int(order["number"]), terms
                )
                answer = masked(answer, self._masker)
                self._tell(f"{answer.text} (asked for by {order.get('by') or 'a person'})")
                body = {**order, "answer": {"done": answer.done, "text": answer.text}}
                await self._store.put(ORDERS, key, body)
            await asyncio.sleep(SERVE_EVERY)


async def carry_out(
    provider: CIProvider, action: Action, number: int, terms: MergeTerms = USUAL_TERMS
) -> Answer:
    """Merge or close a pull request, or say why not."""
    try:
        if action == "merge":
            result = await provider.merge(number, terms=terms)
            while result.pending:
                await asyncio.sleep(LOOK_EVERY)
                result = await provider.merge(number, terms=terms)
            if not result.merged:
                return Answer(done=False, text=result.reason)
            commit = (result.commit or "")[:7]
            return Answer(done=True, text=f"pull request {number} is merged as {commit}")
        closed = await provider.close(number)
    except CIError as problem:
        return Answer(done=False, text=str(problem))
    done = closed.state == "closed"
    return Answer(done=done, text=f"pull request {number} is {closed.state}")


async def order(  # noqa: PLR0913  # all by name but what is wanted
    makings: Makings,
    action: Action,
    number: int,
    *,
    by: str,
    wait_s: float = 30.0,
    terms: MergeTerms = USUAL_TERMS,
) -> Answer:
    """Have a pull request merged or closed, whoever has the repository at the moment."""
    repo = makings.repo
    async with store_of(repo) as store:
        key = secrets.token_hex(8)
        left = False
        end = asyncio.get_running_loop().time() + wait_s
        try:
            while True:
                runner = runner_of(repo)
                if runner is None:
                    with suppress(RepositoryBusyError):
                        return await _here(makings, action, number, terms)
                elif not left:
                    left = True
                    who = makings.masker.mask(by)
                    wanted = {"action": action, "number": number, "by": who}
                    await store.put(ORDERS, key, {**wanted, "terms": asdict(terms)})
                body = (await store.all(ORDERS)).get(key, {}) if left else {}
                answer = body.get("answer")
                if body.get("begun") and runner is not None:
                    # What comes of a merge is checked, which may take long.
                    end = asyncio.get_running_loop().time() + wait_s
                if answer is not None:
                    return Answer(done=bool(answer["done"]), text=str(answer["text"]))
                if asyncio.get_running_loop().time() > end:
                    raise UnansweredError(
                        f"the runner (pid {(runner or {}).get('pid', '?')}) did not answer within "
                        f"{wait_s:g} s; nothing was changed. Is it `loopwright run` or `up`?"
                    )
                await asyncio.sleep(LOOK_EVERY)
        finally:
            if left:
                await store.remove(ORDERS, key)


async def _here(makings: Makings, action: Action, number: int, terms: MergeTerms) -> Answer:
    there = outside(makings)
    loop = wiring.build(
        makings.repo,
        settings=makings.settings,
        who=f"pr {action} {number}",
        provider=there.provider,
        remote=there.remote,
    )
    async with loop.opened():
        return masked(await carry_out(there.provider, action, number, terms), makings.masker)


async def listed(makings: Makings) -> list[PullRequest]:
    """Return the pull requests; beside a live runner as well.

    Those on this machine are all told, as last recorded; at a forge the open ones of our agents.
    """
    there = outside(makings)
    if there.forge is not None:
        pulls = await _listed_there(there.forge)
    else:
        pulls = await _listed_here(makings.repo, checked=bool(makings.settings().test_command))
    if Paths.of(makings.repo).database.exists():
        async with store_of(makings.repo) as store:
            pulls = await with_along(makings.repo, store, pulls)
    return masked(pulls, makings.masker)


async def _listed_there(forge: Forge) -> list[PullRequest]:
    try:
        ours = [pull for pull in await forge.open_pulls() if pull.branch.startswith(OURS)]
        return [
            PullRequest(
                checks=judge_checks(pull.head_sha, await forge.checks(pull.head_sha)).status,
                conflicts=("(see there)",) if pull.mergeable is False else (),
                **pull.model_dump(include=set(PullRequest.model_fields)),
            )
            for pull in sorted(ours, key=lambda pull: pull.number)
        ]
    finally:
        await forge.aclose()


async def _listed_here(repo: Path, *, checked: bool) -> list[PullRequest]:
    async with store_of(repo) as store:
        pulls = [_read(Pull, body) for body in (await store.all(PULLS)).values()]
        builds = [_read(Build, body) for body in (await store.all(BUILDS)).values()]
    verdicts = {}
    if checked:
        verdicts = {build.sha: build.verdict() for build in sorted(builds, key=lambda b: b.number)}
    return [
        pull.seen_with(verdicts.get(pull.head_sha) or judge(pull.head_sha))
        for pull in sorted(pulls, key=lambda pull: pull.number)
    ]


def _read(form: Any, body: dict[str, Any]) -> Any:
    try:
        return form.model_validate(body)
    except ValueError as problem:
        raise LifecycleError(
            f"a record of the local provider cannot be read: {problem}"
        ) from problem
