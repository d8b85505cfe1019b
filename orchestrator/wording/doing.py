"""What agents do at the moment and what they used so far, for all who look: terminal, API, pages.

Cheap enough to be asked for every row of a list: only what is new in a log is read. Must not decide
what a tool call is called: that is `program_output`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.machine.states import Stopping, Working
from orchestrator.wording.last_output import LastOutput

if TYPE_CHECKING:
    from lifecycle.engine.engine import LocalEngine


@dataclass(frozen=True, slots=True)
class Doing:
    """What an agent does at the moment, and what its lifecycle used so far."""

    text: str = ""
    """`Bash: npm test`, `Edit src/x.py`, or its last words; on one line, masked, safe to show."""
    tokens: int = 0
    """0 also where its program reports none."""
    cost_usd: float = 0.0


@dataclass(slots=True)
class AgentActivity:
    """What the agents of one engine do; made once, and asked as often as anybody looks."""

    engine: LocalEngine
    _words: LastOutput | None = None

    def doing(self, agent_id: str) -> Doing:
        """Return what an agent does at the moment; nothing where no attempt is under way."""
        case, shared = self.engine.running().get(agent_id), self.engine.shared
        if self._words is None:
            self._words = LastOutput(shared.clock.now, shared.masker)
        if case is None:
            self._words.forget(agent_id)
            return Doing()
        spent = shared.accounts.spent(agent_id=agent_id)
        state = case.record.work
        if not isinstance(state, (Working, Stopping)):
            return Doing("", spent.tokens, spent.cost_usd)
        tally = state.tally
        log = self.engine.machine.paths.log(agent_id, tally.attempt)
        folder = "" if case.workspace is None else str(case.workspace.path)
        text = self._words.of(case.agent, tally.attempt, tally.program, log, folder)
        return Doing(text, spent.tokens, spent.cost_usd)
