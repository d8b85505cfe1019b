"""Runs a reviewer: a fresh process of its own that reads a commit and answers in a checked form.

It shares nothing with the author: no session, no workspace, no variables, no mailbox. What it may
use of the budgets is the same. It decides nothing: what came of it is a fact.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.attempt.output_monitor import Caps, EndNow, Monitor
from lifecycle.context.files import drop_config, readable, write_config
from lifecycle.errors import PlanError
from lifecycle.judging.opinion_form import (
    ANSWER_BYTES,
    Unusable,
    answer_in,
    files_named,
    opinion_of,
)
from lifecycle.judging.review_request import request_of
from lifecycle.launch.programs import launch, programs_of
from lifecycle.launch.sandbox import SandboxRequest
from lifecycle.machine import events as on
from lifecycle.machine.budget import Spent, price_of
from lifecycle.machine.events import Fault
from lifecycle.machine.states import AttemptOutcome, Verifying
from lifecycle.plan import Agent
from lifecycle.setup.agent_workspace import end, look_once, whole
from lifecycle.shortage_retry import fault_of, text_of
from runtime.agents.events import Text
from runtime.agents.outcome import Ending
from runtime.errors import RuntimeFault, SpawnError
from runtime.git.porcelain import some_of
from runtime.logs.files import size, tail, trim
from runtime.process import SpawnOrder
from templates.errors import TemplateError
from templates.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lifecycle.judging.opinion_form import Answer
    from lifecycle.judging.review_request import ReviewRequest
    from lifecycle.launch.programs import Program
    from lifecycle.machine import effects as do
    from lifecycle.machine.opinion import Opinion
    from lifecycle.services import MachineServices
    from lifecycle.settings import Settings
    from lifecycle.setup.setup import JudgedCheckout, SettingUp
    from lifecycle.working_copy import LocalCopy
    from runtime.process import AgentProcess, ProcessExit

LOOKS_EVERY = 0.5
"""Seconds between two looks at a reviewer: at its time, its budget and its output."""
_NAME = 80
"""Characters of a reviewer's name."""
MARK = "LOOPWRIGHT_REVIEW"
"""The variable with what an answer has to repeat; no file of the work can know it."""
_CODES = (Ending.BREAKPOINT, Ending.NO_BREAKPOINT)
"""What a program says that ended its turn well."""


@dataclass(frozen=True, slots=True)
class _Review:
    """One review: of what, by which program, and where its output goes."""

    local: LocalCopy
    effect_id: str
    attempt: int
    by: str
    program: Program
    reviewer: Agent
    mark: str
    log: Path
    settings: Settings


@dataclass(frozen=True, slots=True)
class _Run:
    """How the process of a reviewer ended."""

    how: ProcessExit | None
    ended: EndNow | None
    """Why we ended it; None if it ended by itself."""
    limit: str
    report: on.AgentReport | None
    answer: Answer | Unusable
    seconds: float


def reviewer_of(review_by: str, repo: Path) -> Agent:
    """Return who reviews, as a setting names it: an agent program, or a command line.

    A program named by its path is the one of the user's checkout: that of the reviewed commit may
    be the author's work.
    """
    words = shlex.split(review_by)
    if len(words) == 1 and "/" not in words[0]:
        return Agent(agent_id="reviewer", adapter=review_by)
    if "/" in words[0]:
        words[0] = os.path.join(repo, os.path.expanduser(words[0]))  # noqa: PTH111, PTH118  # as text
    return Agent(agent_id="reviewer", command=words)


class Reviewer:
    """Runs the reviewers of all lifecycles of one repository."""

    def __init__(self, machine: MachineServices, setting_up: SettingUp) -> None:
        self._machine, self._shared = machine, machine.shared
        self._setting_up = setting_up
        self._renderer = Renderer(
            machine.paths.templates,
            nonce=lambda: secrets.token_hex(16),
            mask=machine.shared.masker.mask,
        )

    async def run(
        self,
        local: LocalCopy,
        effect_id: str,
        order: do.RunReview,
        afford: Callable[[Spent], str],
    ) -> on.ReviewFinished:
        """Have a commit reviewed."""
        try:
            return await self._run(local, effect_id, order, afford)
        except (SpawnError, PlanError) as error:
            return self._not_run(order, error, fault_of(error, Fault.USER))
        except (RuntimeFault, TemplateError, OSError) as error:
            return self._not_run(order, error, fault_of(error))

    def _not_run(self, order: do.RunReview, error: Exception, fault: Fault) -> on.ReviewFinished:
        now = self._shared.clock.now()
        return on.ReviewFinished(at=now, attempt=order.attempt, problem=text_of(error), fault=fault)

    async def _run(
        self,
        local: LocalCopy,
        effect_id: str,
        order: do.RunReview,
        afford: Callable[[Spent], str],
    ) -> on.ReviewFinished:
        if over := afford(Spent()):
            outcome = AttemptOutcome(ended=Ending.BUDGET, text=over)
            now = self._shared.clock.now()
            return on.ReviewFinished(at=now, attempt=order.attempt, outcome=outcome)
        review = self._review(local, effect_id, order)
        await look_once(self._machine, local, await whole(self._machine, local))
        place = await self._setting_up.lay_out(local, effect_id, order.head, attempt=order.attempt)
        if place.red is not None:
            raise RuntimeFault(place.red.excerpt)
        request = await request_of(self._machine, local, order.attempt, order.head)
        run = await self._process(review, request, place, afford)
        changed = await self._machine.checkouts.changed(local.agent_id)
        return await self._judged(review, request, run, changed)

    def _review(self, local: LocalCopy, effect_id: str, order: do.RunReview) -> _Review:
        machine, settings = self._machine, self._shared.settings()
        by = settings.review_of(local.task)
        if not by:
            raise PlanError("no reviewer is named any more (review_by)")
        reviewer = reviewer_of(by, machine.repo)
        work = local.record.work
        number = work.tally.reviews + 1 if isinstance(work, Verifying) else 1
        return _Review(
            local=local,
            effect_id=effect_id,
            attempt=order.attempt,
            by=_shown(by),
            program=programs_of(reviewer)[0],
            reviewer=reviewer,
            mark=secrets.token_hex(8),
            log=machine.paths.review_log(local.agent_id, order.attempt, number),
            # What is meant for the author's program may mean nothing to another.
            settings=settings.model_copy(update={"agent_args": (), "tool_server": "off"}),
        )

    # --- the process --------------------------------------------------------------------------

    async def _process(
        self,
        review: _Review,
        request: ReviewRequest,
        place: JudgedCheckout,
        afford: Callable[[Spent], str],
    ) -> _Run:
        """Let it work to its end, or to ours; nothing of it is left."""
        machine, local = self._machine, review.local
        config = machine.paths.config(local.agent_id, review.attempt)
        prompt = self._renderer.render("review.md.j2", {**request.told, "mark": review.mark})
        beside = review.log.with_suffix(".prompt.md")
        spawn_id = f"{review.effect_id}.review"
        for identity in machine.terminals.find_marked(spawn_id):
            await end(machine, identity)
        start = size(review.log)
        earlier = self._monitor(review, 0).finish(None, None, Ending.KILLED, spoke=False)
        try:
            with readable(prompt, beside) as stdin:
                order = await self._order(review, place, spawn_id, stdin, config)
                process = await machine.terminals.spawn(order)
        except BaseException:
            drop_config(config)
            raise
        began, monitor = asyncio.get_running_loop().time(), self._monitor(review, start)
        ended: EndNow | None = None
        try:
            ended = await self._until_end(review, process, monitor, afford)
        finally:
            stopped = await process.stop(review.settings.stop_grace)
            drop_config(config)
        seconds = asyncio.get_running_loop().time() - began
        how = stopped.exit
        answer = answer_in(await asyncio.to_thread(_said, review, start), review.mark)
        spoke = not isinstance(answer, Unusable)
        code, signal = (how.code, how.signal) if how is not None else (None, None)
        report = monitor.finish(code, signal, ended.ended if ended else None, spoke=spoke)
        if start and earlier is not None:
            report = _together(earlier, report)
        return _Run(how, ended, process.limit_reached, report, answer, seconds)

    def _monitor(self, review: _Review, start: int) -> Monitor:
        settings, program = review.settings, review.program
        return Monitor(
            program.adapter,
            review.log,
            start,
            self._shared.clock.now,
            Caps(settings.max_events, settings.max_tool_calls),
            program.model,
            price_of(settings.prices, program.adapter.name, program.model),
        )

    async def _order(
        self, review: _Review, place: JudgedCheckout, spawn_id: str, stdin: Path | int, config: Path
    ) -> SpawnOrder:
        machine, settings = self._machine, review.settings
        start = launch(
            review.program, review.reviewer, settings, machine.host, config=config, identity={}
        )
        write_config(config, start.files, needed=settings.private_config)
        request = SandboxRequest(
            place.folder,
            start.argv,
            in_git=False,
            judges=(place.folder / ".git").is_dir(),
            config=config if start.files or settings.private_config else None,
            fixed=place.fixed,
            read_only=True,
        )
        plan = await machine.sandbox.plan(settings, request)
        if plan.sandbox is None or plan.sandbox.engine.shows_system:
            _require(start.argv[0])
        who = await machine.sandbox.identity() if review.program.adapter.hides_git_settings else {}
        return SpawnOrder(
            agent_id=review.local.agent_id,
            attempt=review.attempt,
            spawn_id=spawn_id,
            command=start.argv,
            cwd=place.folder,
            stdin=stdin,
            log=review.log,
            env={
                **plan.env,
                **who,
                **start.env,
                "LOOPWRIGHT_TASK_ID": review.local.task.id,
                MARK: review.mark,
                "GIT_CEILING_DIRECTORIES": str(place.folder.parent),
            },
            log_cap=settings.log_cap_bytes,
            inherit=(*settings.pass_env, *start.passes),
            forbids=start.forbids,
            limits=plan.limits,
            sandbox=plan.sandbox,
            allow_weaker=settings.allow_weaker,
            contained=plan.text,
            weaker=plan.weaker,
            made=place.made,
        )

    async def _until_end(
        self,
        review: _Review,
        process: AgentProcess,
        monitor: Monitor,
        afford: Callable[[Spent], str],
    ) -> EndNow | None:
        """Wait for its exit; say why it has to be ended before."""
        loop, limit = asyncio.get_running_loop(), review.settings.review_timeout
        began = loop.time()
        while True:
            left = began + limit - loop.time()
            await asyncio.wait((process.exit,), timeout=max(0.0, min(LOOKS_EVERY, left)))
            if process.exit.done():
                return None
            trim(review.log, review.settings.log_cap_bytes)
            lasted = loop.time() - began
            if (over := afford(replace(monitor.spent(), seconds=lasted))) != "":
                return EndNow(Ending.BUDGET, over)
            if (hopeless := monitor.listen()) is not None:
                return hopeless
            if lasted >= limit:
                return EndNow(Ending.TIMEOUT, f"it took longer than {limit:g} s (review_timeout)")

    # --- what it came to ----------------------------------------------------------------------

    async def _judged(
        self, review: _Review, request: ReviewRequest, run: _Run, changed: tuple[str, ...]
    ) -> on.ReviewFinished:
        outcome, opinion = _failure_of(run, changed), None
        if outcome is None and not isinstance(run.answer, Unusable):
            opinion = await self._opinion(review, request, run.answer)
        return on.ReviewFinished(
            at=self._shared.clock.now(),
            attempt=review.attempt,
            opinion=opinion,
            outcome=outcome,
            program=review.by if review.program.adapter.programs else review.program.adapter.name,
            report=run.report,
            seconds=run.seconds,
        )

    async def _opinion(self, review: _Review, request: ReviewRequest, answer: Answer) -> Opinion:
        lines = await request.lines(self._machine, files_named(answer))
        return opinion_of(answer, review.by, request.head, lines)


def _shown(review_by: str) -> str:
    """Name a reviewer: a command without the folders of its files."""
    words = shlex.split(review_by)
    return " ".join(os.path.basename(word) for word in words)[:_NAME]  # noqa: PTH119  # as text


def _require(program: str) -> None:
    """Refuse a program that is not there: a sandbox would only say that it failed."""
    if shutil.which(program) is None:
        raise SpawnError(
            f"the reviewer's program {program} is not there; install it, or change review_by"
        )


def _failure_of(run: _Run, changed: tuple[str, ...]) -> AttemptOutcome | None:
    """Say why what a reviewer printed does not count; None where it does."""
    if (ended := _bad_end(run)) is not None:
        return ended
    if changed:
        text = f"it changed files, which a reviewer must not: {some_of(changed)}"
        return AttemptOutcome(ended=Ending.ERROR, text=text)
    if isinstance(run.answer, Unusable):
        return AttemptOutcome(ended=Ending.INVALID_BREAKPOINT, text=run.answer.text)
    return None


def _bad_end(run: _Run) -> AttemptOutcome | None:
    """Say how its process failed; None where it ended well, by itself."""
    how, report = run.how, run.report
    if (ended := run.ended) is not None:
        return AttemptOutcome(
            ended=ended.ended, text=ended.text, reset_at=ended.reset_at, advice=ended.advice
        )
    if run.limit:
        return AttemptOutcome(ended=Ending.LIMIT, text=run.limit)
    if report is not None and report.ended not in _CODES:
        return AttemptOutcome(
            ended=report.ended, text=report.detail, reset_at=report.reset_at, advice=report.advice
        )
    if how is None or how.signal is not None:
        return AttemptOutcome(ended=Ending.CRASH, text="its process was killed")
    return AttemptOutcome(ended=Ending.ERROR, text=f"exit code {how.code}") if how.code else None


def _said(review: _Review, start: int) -> str:
    """Return what the program itself said at last; of one that writes no events, all it printed."""
    adapter = review.program.adapter
    parser = adapter.parser(lambda: 0.0)
    if not parser.structured:
        return tail(review.log, ANSWER_BYTES, start)
    said = ""
    with contextlib.suppress(OSError), review.log.open("rb") as file:
        file.seek(start)
        for line in file:
            with contextlib.suppress(Exception):  # an adapter may be anybody's code
                for event in parser.feed(line.rstrip(b"\n")):
                    if isinstance(event, Text):
                        said = (said + event.text if event.part else event.text)[-ANSWER_BYTES:]
    return said


def _together(one: on.AgentReport, other: on.AgentReport | None) -> on.AgentReport:
    """Return what both processes of a review used; an earlier one was lost with its runner."""
    if other is None:
        return replace(one, ended=Ending.NO_BREAKPOINT)
    costs = [each.cost_usd for each in (one, other) if each.cost_usd is not None]
    return replace(
        other,
        tokens=(one.tokens or 0) + (other.tokens or 0),
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        cost_usd=sum(costs) if costs else None,
        tool_calls=one.tool_calls + other.tool_calls,
    )
