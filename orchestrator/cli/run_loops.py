"""What `run`, `up`, `serve` and `demo` share: they run loops and print how these ended.

Decides nothing about lifecycles.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from ci.forge_registry import FORGES
from lifecycle.clock import SystemClock
from lifecycle.launch import sandbox
from lifecycle.machine.states import Accepted, Blocked, Completed, Rejected
from lifecycle.paths import Paths
from lifecycle.result import LoopResultType
from lifecycle.state_words import ACCEPTED, GIVEN_UP, NEEDS_YOU, needs_of, word_on
from orchestrator import wiring
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import SettingsReader
from orchestrator.control.people_only import require_person
from orchestrator.control.runner_log import RunnerLog
from orchestrator.runner.engine_choice import owners_for
from orchestrator.runner.notices import Troubles
from orchestrator.runner.providers import ProviderInputs, make_providers
from orchestrator.runner.session import run_session
from orchestrator.runner.shadowing import check_own_packages
from orchestrator.telemetry.requirements import require_telemetry
from orchestrator.terminal.options import UsageError
from orchestrator.terminal.text import (
    blocks,
    coloured,
    one_line,
    paint,
    say,
    span,
    tell,
    terminal_width,
)
from orchestrator.wording.live_view import PlainView, choose
from orchestrator.wording.states import (
    ACCEPT,
    COLOURS,
    decide_next,
    ended_with,
    next_step,
    waiting_for,
)
from runtime.capacity import raise_files
from runtime.errors import SpawnError
from runtime.git.git import inspect_repository
from runtime.thread_pool import provide
from runtime.workspaces.worktrees_dir import claimed, worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.record import AgentLifecycle
    from lifecycle.result import LoopResult
    from orchestrator.runner.process_share import ProcessShare
    from orchestrator.runner.workload import RunResult, Workload
    from orchestrator.wording.live_view import LiveView

NAMED = 4
"""Agents that a hint names; a plan may have hundreds."""
HEADS = ("AGENT", "TASK", "ENDED AS", "ATTEMPTS", "RETRIES", "WHAT IT SAYS")
STATE = HEADS.index("ENDED AS")
PR_REMINDER = 7 * 86_400.0
SUMMARY = 400
"""Columns of an agent's summary."""


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The repository, settings and environment of a command."""

    repo: Path
    settings: SettingsReader
    environ: Mapping[str, str]

    @classmethod
    def of(cls, repo: Path, **overrides: object) -> CommandContext:
        """Read the settings of a repository; the command line comes first.

        An agent inside one of its attempts may not start a runner.
        """
        require_person(repo, "run loops")
        environ = dict(os.environ)
        watched = any(each is not None and each.isatty() for each in (sys.stdin, sys.stderr))
        # Without a terminal nobody can answer, and a script needs the exit code.
        defaults: dict[str, object] = {"stay_for_people": watched}

        def read() -> SettingsReader:
            return SettingsReader(
                repo, environ=environ, overrides=overrides, defaults=defaults, report=tell
            )

        reader = read()
        if not {*reader().providers}.isdisjoint(FORGES) and "pr_reminder" not in (
            reader().model_fields_set
        ):
            # People review when they can: the wait for them goes on.
            defaults["pr_reminder"] = PR_REMINDER
            reader = read()
        return cls(repo, reader, environ)


async def loop_through(  # noqa: PLR0913  # all by name
    context: CommandContext,
    work: Callable[[LocalEngine], Awaitable[Workload]],
    *,
    who: str,
    plain: bool,
    revives: bool,
    share: ProcessShare | None = None,
    view: LiveView | None = None,
    here_only: bool = False,
) -> RunResult:
    """Run the loops; progress is shown on standard error, by a `view` of the caller or as chosen.

    With `here_only` nothing of it is pushed, and no pull request opened at a forge.
    """
    check_own_packages()
    raise_files()
    provide()
    # Refused before anything is recorded: no git, no commit, a bare repository.
    inspect_repository(context.repo).require_usable()
    settings = context.settings()
    require_telemetry(settings, context.environ)
    try:
        weaker = await asyncio.to_thread(sandbox.check, settings)
    except SpawnError as refusal:
        raise UsageError(str(refusal)) from refusal
    for what in weaker:
        tell(f"Weaker than asked for: {what}")
    view = view or (
        choose(sys.stderr, context.environ, plain=plain)
        if share is None
        else PlainView(sys.stderr, of=share.name)
    )
    masker = masker_of(context.environ, settings.pass_env)
    own = settings.model_copy(update={"providers": ("local",)})
    inputs = ProviderInputs(
        context.repo,
        (lambda: own) if here_only else context.settings,
        context.environ,
        SystemClock().now,
        masker,
        clients=None if share is None else share.clients,
    )
    providers = make_providers(inputs)
    if share is not None:
        share.provided(providers)
    root = Paths.of(context.repo).root
    agents = worktrees_dir(context.repo, settings.worktrees_dir, context.environ)
    with (
        claimed(agents, context.repo.resolve()),
        closing(RunnerLog(root, now=SystemClock().now, masker=masker)) as log,
    ):
        async with owners_for(
            *(context.repo, settings, context.environ),
            local=not revives,
            header=providers.git_header,
        ) as owners:
            loop = wiring.build(
                context.repo,
                settings=context.settings,
                who=who,
                provider=providers.provider,
                remote=providers.remote,
                observers=(view.news,),
                report=Troubles(log.report, view.note).report,
                environ=context.environ,
                masker=masker,
                owners=owners,
            )
            return await run_session(
                loop,
                work,
                view=view,
                providers=providers,
                revives=revives,
                approvals=context.settings.approvals,
                share=share,
                bring=providers.bring(inputs),
            )


def tell_ending(ending: RunResult, context: CommandContext, *, hints: bool = True) -> None:
    """Print the final table and, with hints, what a person can do next."""
    lines = _table(ending, context.environ)
    if lines:
        say("\n".join(lines))
    if not hints:
        return
    repo = _repo_option(context)
    if ending.damaged:
        say(f"Next: loopwright doctor{repo}   (says how to fix a damaged record)")
    records = sorted((*ending.records.values(), *ending.held), key=lambda each: each.cursor)
    undecided = [
        each
        for each in records
        if each.work
        and (needs_of(type(each.work).__name__, vars(each.work)) or _is_stuck(each, ending))
    ]
    if len(undecided) > 1:
        words = [
            NEEDS_YOU if _is_stuck(each, ending) else word_on(each, runs=False)
            for each in undecided
        ]
        say("\n".join(decide_next(words, repo)))
        records = [each for each in records if each not in undecided]
    waiting: dict[tuple[str, str], list[str]] = {}
    for record in records:
        result = ending.results.get(record.agent_id)
        waiting.setdefault(_next(record, result), []).append(record.agent_id)
    for (command, more), (first, *others) in waiting.items():
        if command:
            several = bool(others) and "{}" in command
            whom = "--all" if several and command == ACCEPT else first
            notes = [f"also {_some(others)}"] if several and whom == first else []
            said = "; ".join((*notes, more) if more else notes)
            say(f"Next: loopwright {command.format(whom)}{repo}" + (f"   ({said})" if said else ""))


def _is_stuck(record: AgentLifecycle, ending: RunResult) -> bool:
    """Tell whether its loop ended because only a person can move it on."""
    result = ending.results.get(record.agent_id)
    asks = result is not None and result.result_type is LoopResultType.BLOCKED
    return isinstance(record.work, Blocked) and asks


def headline(result: LoopResult, record: AgentLifecycle | None) -> str:
    """Say in a word how a loop ended: the state of its record, now that no runner is left."""
    if record is not None:
        return word_on(record, runs=False)
    # It was accepted long ago, and its record is gone.
    return ACCEPTED if result.result_type is LoopResultType.TASK_COMPLETE else GIVEN_UP


def _table(ending: RunResult, environ: Mapping[str, str]) -> list[str]:
    rows = []
    for agent_id, result in sorted(ending.results.items()):
        record = ending.records.get(agent_id)
        counts = (_attempts(record) or str(result.spawn_count), str(result.retry_count))
        words = _says(result, record)
        stuck = record is not None and _is_stuck(record, ending)
        word = NEEDS_YOU if stuck else headline(result, record)
        rows.append((agent_id, result.task_id, word, *counts, words))
    for record in ending.held:
        tally = record.work.tally if record.work is not None else None
        counts = (_attempts(record), str(tally.retry_count) if tally else "")
        rows.append((record.agent_id, record.task_id, word_on(record), *counts, ""))
    rows += [
        (each.agent_id, each.task_id, NEEDS_YOU, "", "", f"damaged: {each.problem}")
        for each in ending.damaged
    ]
    if not rows:
        return []
    head, *lines = blocks(HEADS, rows, width=terminal_width(sys.stdout, environ))
    if coloured(sys.stdout, environ):
        head = paint(head, "dim", wanted=True)
        lines = [
            paint(line, COLOURS.get(row[STATE], ""), wanted=True)
            for line, row in zip(lines, rows, strict=True)
        ]
    return [head, *lines]


def _attempts(record: AgentLifecycle | None) -> str:
    work = record.work if record is not None else None
    return str(work.tally.attempts) if work is not None else ""


def _says(result: LoopResult, record: AgentLifecycle | None) -> str:
    """Return the agent's summary of completed work, else what prevents completion."""
    work = record.work if record is not None else None
    if work is None or (isinstance(work, Completed) and not work.problem):
        return one_line(result.summary or result.error or "", SUMMARY)
    if isinstance(work, Accepted | Rejected):
        return ended_with(type(work).__name__, vars(work))
    present = SystemClock().now()
    waits = waiting_for(type(work).__name__, vars(work), present, span, runs=False)
    return result.error or waits or one_line(result.summary, SUMMARY)


def _next(record: AgentLifecycle, result: LoopResult | None) -> tuple[str, str]:
    """Return what to type next about a lifecycle, and what else there is."""
    work = record.work
    if work is None:
        return "", ""
    asks = result is not None and result.result_type is LoopResultType.BLOCKED
    return next_step(type(work).__name__, vars(work), asks_people=asks)


def _some(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _repo_option(context: CommandContext) -> str:
    here = Path.cwd()
    around = here == context.repo or context.repo in here.parents
    return "" if around else f" --repo {quote(one_line(str(context.repo)))}"
