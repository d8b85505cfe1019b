"""How `loopwright pr` reaches the pull requests of the local provider.

They live in the runner, so a live one is asked through documents of the store; on a stopped
repository the provider is started here for a moment. What may be merged is the provider's business.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from ci.errors import CIError
from ci.local_ledger import BUILDS, PULLS
from ci.local_records import Build, Pull
from ci.verdict import judge
from lifecycle.errors import LifecycleError, RepositoryBusyError
from orchestrator import wiring
from orchestrator.reading import runner_of, store_of
from orchestrator.requests import LOOK_EVERY, UnansweredError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci.interface import PullRequest
    from ci.local import LocalCIProvider
    from lifecycle.settings import Settings
    from lifecycle.store.port import LifecycleStore

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
        self, store: LifecycleStore, provider: LocalCIProvider, tell: Callable[[str], None]
    ) -> None:
        self._store = store
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
                answer = await carry_out(self._provider, order["action"], int(order["number"]))
                self._tell(f"{answer.text} (asked for by {order.get('by') or 'a person'})")
                body = {**order, "answer": {"done": answer.done, "text": answer.text}}
                await self._store.put(ORDERS, key, body)
            await asyncio.sleep(SERVE_EVERY)


async def carry_out(provider: LocalCIProvider, action: Action, number: int) -> Answer:
    """Merge or close a pull request, or say why not."""
    try:
        if action == "merge":
            result = await provider.merge(number)
            if not result.merged:
                return Answer(done=False, text=result.reason)
            commit = (result.commit or "")[:7]
            return Answer(done=True, text=f"pull request {number} is merged as {commit}")
        closed = await provider.close(number)
    except CIError as problem:
        return Answer(done=False, text=str(problem))
    done = closed.state == "closed"
    return Answer(done=done, text=f"pull request {number} is {closed.state}")


async def order(  # noqa: PLR0913  # all by name
    repo: Path, action: Action, number: int, *, by: str, settings: Settings, wait_s: float = 30.0
) -> Answer:
    """Have a pull request merged or closed, whoever has the repository at the moment."""
    async with store_of(repo) as store:
        key = secrets.token_hex(8)
        left = False
        end = asyncio.get_running_loop().time() + wait_s
        try:
            while True:
                runner = runner_of(repo)
                if runner is None:
                    with suppress(RepositoryBusyError):
                        return await _here(repo, action, number, settings)
                elif not left:
                    left = True
                    await store.put(ORDERS, key, {"action": action, "number": number, "by": by})
                answer = (await store.all(ORDERS)).get(key, {}).get("answer") if left else None
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


async def _here(repo: Path, action: Action, number: int, settings: Settings) -> Answer:
    provider = wiring.local_provider(repo, settings)
    loop = wiring.build(
        repo, settings=lambda: settings, who=f"pr {action} {number}", provider=provider
    )
    async with loop.opened():
        return await carry_out(provider, action, number)


async def listed(repo: Path, *, checked: bool) -> list[PullRequest]:
    """Return all local pull requests as last recorded; reads beside a live runner."""
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
