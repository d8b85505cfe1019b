"""`loopwright agents test`: what was typed, the question about money, the table, the exit code.

Owns the words around a test. Must not judge.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.plan import check_variables
from orchestrator.config.plans import words_of
from orchestrator.conformance.cases import CASES
from orchestrator.conformance.kit import chosen, conduct
from orchestrator.conformance.subject import AgentUnderTest, Bounds
from orchestrator.conformance.verdict import Mark
from orchestrator.control.agents import install_of, left_out, place_of
from orchestrator.terminal import exits
from orchestrator.terminal.options import UsageError
from orchestrator.terminal.text import (
    blocks,
    coloured,
    now,
    paint,
    say,
    tell,
    terminal_width,
    to_json,
)
from runtime.agents.adapter import LaunchRequest, plan
from runtime.agents.catalogue import adapter
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Coroutine, Mapping

    from orchestrator.conformance.cases import ConformanceCase
    from orchestrator.conformance.verdict import ConformanceReport, Result
    from runtime.agents.adapter import Adapter

HEADS = ("CASE", "VERDICT", "SECONDS", "WHY")
_COLOURS = {Mark.PASS: "green", Mark.FAIL: "red", Mark.NOT_PROVOKED: "yellow"}
_COMMAND = "command"
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_SIGNALLED = 128


def run(name: str, options: Namespace) -> int:
    """Test one adapter or command; returns the exit code."""
    subject = _subject(name, options, os.environ)
    only = frozenset(options.only)
    unknown = only - {case.name for case in CASES}
    if unknown:
        raise UsageError(
            f"there is no case {', '.join(sorted(unknown))}; there are: "
            f"{', '.join(case.name for case in CASES)}"
        )
    if not _agreed(subject, only, yes=options.yes):
        tell("Nothing was started.")
        return exits.USAGE
    told = None if options.json else _tell
    with scratch("conformance") as where:
        report = asyncio.run(_until_signalled(conduct(subject, where, only=only, tell=told)))
    if isinstance(report, int):
        return report
    if options.json:
        say(to_json(report.to_json()))
    else:
        _print(report)
    return exits.COMPLETE if report.conforms else exits.FAILED


async def _until_signalled(
    work: Coroutine[None, None, ConformanceReport],
) -> ConformanceReport | int:
    """Await the report; a signal ends all that was started first, and gives the exit code."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    heard: list[int] = []

    def end(number: int) -> None:
        heard.append(number)
        task.cancel()

    for each in _SIGNALS:
        loop.add_signal_handler(each, end, each)
    try:
        return await task
    except asyncio.CancelledError:
        if not heard:
            raise
        return _SIGNALLED + heard[0]
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)


def _subject(name: str, options: Namespace, environ: Mapping[str, str]) -> AgentUnderTest:
    found = adapter(options.adapter or _COMMAND, left_out)
    if not options.adapter and options.command is None:
        raise UsageError(f"name an adapter, such as `loopwright {name} test claude`, or --command")
    try:
        check_variables(options.passes)
    except ValueError as problem:
        raise UsageError(f"--pass: {problem}") from problem
    request = LaunchRequest(
        program=_program(found, environ),
        command=_words(options.command),
        model=options.model or "",
        config_folder=os.sep,
        passes=tuple(options.passes),
    )
    plan(found, request)  # what does not fit is told before anything is asked or started
    bounds = Bounds()
    if options.timeout is not None:
        idle = min(bounds.idle, options.timeout / 2)
        bounds = Bounds(timeout=options.timeout, idle=idle)
    return AgentUnderTest(
        adapter=found,
        request=request,
        environ=environ,
        now=now,
        bounds=bounds,
        private=options.private,
    )


def _program(found: Adapter, environ: Mapping[str, str]) -> str:
    path = place_of(found, environ)
    if found.programs and not path:
        raise UsageError(
            f"{found.title} is not installed: {' or '.join(found.programs)} is not on the PATH"
            + (f"; {install_of(found)}" if found.install else "")
        )
    return path


def _words(command: str | None) -> tuple[str, ...]:
    """Split the command line; a program named by a path is found from any folder."""
    if command is None:
        return ()
    words = words_of(command)
    return tuple(os.path.abspath(word) if _is_file(word) else word for word in words)  # noqa: PTH100  # keeps links


def _is_file(word: str) -> bool:
    """Tell whether a word names a file from here; each run has a folder of its own."""
    return (os.sep in word or "." in word) and Path(word).is_file()


def _agreed(subject: AgentUnderTest, only: frozenset[str], *, yes: bool) -> bool:
    """Say what it costs, and ask where somebody can answer."""
    cases = chosen(only)
    turns = sum(case.turns for case in cases)
    words = (
        f"This starts {subject.adapter.title} many times and takes about {turns} answers of "
        f"its model, which a real one charges for{_huge(cases, subject)}."
    )
    if yes or not turns:
        return True
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError(f"{words} Add --yes to agree.")
    sys.stderr.write(f"{words} Continue? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _huge(cases: tuple[ConformanceCase, ...], subject: AgentUnderTest) -> str:
    if not any(case.name == "huge-prompt" for case in cases):
        return ""
    return f"; one prompt has {subject.bounds.prompt >> 20} MB"


def _tell(result: Result) -> None:
    tell(f"{result.case}: {result.verdict.mark} ({result.seconds:.1f} s)")


def _print(report: ConformanceReport) -> None:
    width, colours = terminal_width(sys.stdout, os.environ), coloured(sys.stdout, os.environ)
    rows = [
        (each.case, str(each.verdict.mark), f"{each.seconds:.1f}", each.verdict.why)
        for each in report.results
    ]
    head, *body = blocks(HEADS, rows, width=width)
    say(head)
    for each, line in zip(report.results, body, strict=True):
        say(paint(line, _COLOURS[each.verdict.mark], wanted=colours))
    version = f" {report.version}" if report.version else ""
    say()
    say(
        f"{report.agent}{version}: {report.count(Mark.PASS)} passed, "
        f"{report.count(Mark.FAIL)} failed, {report.count(Mark.NOT_PROVOKED)} not provoked"
    )
