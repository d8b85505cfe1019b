"""All about one lifecycle, in the form of `loopwright show --json`.

Must not change anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.store.lock import holder
from orchestrator.terminal.text import instant
from orchestrator.wording.json_forms import whole_form
from orchestrator.wording.why import why
from orchestrator.wording.why_facts import WhyContext
from orchestrator.wording.workers import UNPLACED, unplaced_in

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.wording.json_forms import WholeForm

RECENT = 500
"""Journal entries that are read for the reason, as `show` does."""


async def whole_of(runner: RunnerPort, record: AgentLifecycle) -> WholeForm:
    """Return the record, why it is where it is, its attempts and where its files are."""
    agent_id = record.agent_id
    journal = await runner.store.journal(agent_id, limit=RECENT, newest=True)
    present = runner.now()
    view = WhyContext(
        journal=journal,
        now=present,
        when=lambda at: instant(at, present),
        settings=runner.settings(),
        has_runner=True,
        outside=(await runner.store.all("ci.waits")).get(agent_id, {}),
        silent=await runner.store.workers.silent(present),
        unplaced=unplaced_in(await runner.store.all(UNPLACED), agent_id),
    )
    return whole_form(
        record,
        why=why(record, view),
        attempts=await runner.store.attempts(agent_id),
        pending=await runner.store.pending(agent_id),
        runner=holder(runner.engine.machine.paths.root),
        paths=runner.engine.machine.paths,
        earlier=await runner.store.earlier(agent_id),
        settings=view.settings,
    )
