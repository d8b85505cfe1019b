"""One script as it is played: which turn is next, what was asked. Safe to use from any thread."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

from tests.models.script import Answer, Told, Turn, answer, told
from tests.models.tools import NotOfferedError, Use, placed

ASIDE = answer("A scripted title")
"""What a program is told that asks beside its work, for a title for instance."""
PATIENCE = 20.0


@dataclass
class Request:
    """What a program asked, without its credentials."""

    number: int
    """From 0, of all that came."""
    path: str
    """Without the part that names the script."""
    own_key: bool
    """Whether that was this conversation's key."""
    body: Any
    offered: tuple[str, ...] = ()
    """Names of the tools, with the namespace before them."""
    turn: int | None = None
    """Which turn of the script answered; None for what was asked aside."""
    outcome: str = ""
    """How it went: the answer's status, `cut` or `abandoned`; empty while it is told."""

    @property
    def words(self) -> str:
        """All of the body as text, for a look at whether something is in it."""
        return json.dumps(self.body, ensure_ascii=False)


class Conversation:
    """A script; made by `ModelServer.play`."""

    def __init__(
        self,
        identity: str,
        url: str,
        turns: tuple[Turn, ...],
        again: Turn | None,
    ) -> None:
        self.identity = identity
        self.url = url
        """Without a slash at its end and without the API's version."""
        self.key = f"sk-made-up-{identity}-0123456789"
        """A key that is good for this script and for nothing else."""
        self.problems: list[str] = []
        """What could not be played: a tool that was not offered, a script that was over."""
        self._turns = turns
        self._again = again
        self._next = 0
        self._requests: list[Request] = []
        self._changed = threading.Condition()

    @property
    def requests(self) -> list[Request]:
        """All that was asked, in order."""
        with self._changed:
            return list(self._requests)

    @property
    def turns(self) -> list[Request]:
        """What was answered by the script, in order."""
        return [each for each in self.requests if each.turn is not None]

    def wait(self, turns: int, within: float = PATIENCE) -> list[Request]:
        """Wait until so many turns were asked for; blocks, so not for an event loop's thread."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.turns) >= turns, within):
                came = [(each.path, each.turn, each.outcome) for each in self._requests]
                raise TimeoutError(f"{turns} turns were not asked for in {within} s: {came}")
            return self.turns

    def end(self, request: Request, outcome: str) -> None:
        """Say how a request went; the first word counts. The server calls this."""
        with self._changed:
            request.outcome = request.outcome or outcome
            self._changed.notify_all()

    def record(self, request: Request) -> None:
        """Keep a request; the server calls this."""
        with self._changed:
            request.number = len(self._requests)
            self._requests.append(request)
            self._changed.notify_all()

    def take(self, request: Request, offered: tuple[Any, ...]) -> tuple[Told, list[str | Use]]:
        """Return what to tell now, and its blocks, their tools placed; the server calls this."""
        if not offered:
            return ASIDE, ["A scripted title"]
        with self._changed:
            number = self._next
            self._next += 1
            request.turn = number
            self._changed.notify_all()
        telling = self._turn(number, request)
        if not isinstance(telling, Answer):
            return telling, []
        try:
            blocks = [
                placed(part, offered, f"{self.identity}n{request.number}p{place}")
                for place, part in enumerate(telling.parts)
            ]
        except NotOfferedError as error:
            return self._cannot(str(error))
        return telling, blocks

    def _turn(self, number: int, request: Request) -> Told:
        if number < len(self._turns):
            return told(self._turns[number], request)
        if self._again is not None:
            return told(self._again, request)
        return self._cannot(f"the script was over: turn {number} was asked for")[0]

    def note(self, problem: str) -> None:
        """Keep what could not be played; the server calls this."""
        with self._changed:
            self.problems.append(problem)

    def _cannot(self, problem: str) -> tuple[Told, list[str | Use]]:
        self.note(problem)
        said = f"The script cannot go on: {problem}"
        return answer(said), [said]
