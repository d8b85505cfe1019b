"""`loopwright logs AGENT`: what the agent of an attempt, or a verify command, printed."""

from __future__ import annotations

import os
import sys
import time
from argparse import SUPPRESS
from typing import TYPE_CHECKING, Any

from lifecycle.paths import Paths
from lifecycle.store.lock import holder
from lifecycle.store.plain_queries import agent_meant, read_program, read_rows
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.terminal.options import CommandLineParser, UsageError, count, find_repo, positive
from orchestrator.terminal.text import coloured, now, paint, safe, say, tell, to_json
from orchestrator.wording.program_output import COMMAND, TROUBLE, ReadableOutput
from orchestrator.wording.workers import worker_in
from runtime.agents.catalogue import adapters
from runtime.logs.files import clean
from runtime.masking.masker import Masker
from runtime.workspaces.worktrees_dir import worktrees_dir

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path


LOOK_EVERY = 0.2
LIVE = ("Spawning", "Working", "Stopping")
OVER = ("Completed", "Accepted", "Rejected")
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 20


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Print what the agent of an attempt printed; by default of the latest one.",
        example=f"loopwright {name} agent-T001 --tail 50\nloopwright {name} agent-T001 2 --gate 1",
        more="What programs report as JSON (claude, codex, ...) is shown in words, in a pipe "
        "without colours; --raw gives the lines as they came. On a terminal, escape sequences and "
        "control characters are left out.",
    ).with_agent()
    made.add_argument("attempt", nargs="?", type=count, metavar="ATTEMPT", help="its number")
    made.add_argument(
        "-f", "--follow", action="store_true", help="continue while agents of this lifecycle print"
    )
    made.add_argument(
        "--raw",
        action="store_true",
        help="as its program wrote it, not its reports in words",
    )
    made.add_argument("--words", action="store_true", help=SUPPRESS)  # as it is without --raw
    made.add_argument("--tail", type=positive, metavar="N", help="only the last N lines")
    made.add_argument(
        "--gate",
        type=positive,
        metavar="N",
        help="what the N-th verify command printed; attempt 0 is the untouched code",
    )
    made.add_argument(
        "--setup",
        type=positive,
        metavar="N",
        help="what the N-th set-up command printed; attempt 0 is what ran before the first",
    )
    return made.with_json("print one JSON object with path and text").with_repo()


def run(name: str, args: list[str]) -> int:
    """Print."""
    options = parser(name).parse_args(args)
    ran = options.gate or options.setup
    if options.gate and options.setup:
        raise UsageError("give --gate or --setup, not both")
    if options.follow and (options.json or ran):
        raise UsageError("--follow cannot be combined with --json, --gate or --setup")
    if options.raw and options.words:
        raise UsageError("give --raw or --words, not both")
    repo = find_repo(options.repo)
    paths = Paths.of(repo)
    options.agent = agent_meant(paths.database, options.agent)
    row = _row(repo, paths, options.agent)
    in_words = not options.raw and not ran
    if options.follow:
        masker = _masker_of(repo, shown=in_words or sys.stdout.isatty())
        follower = _Follower(repo, paths, options.agent, masker, in_words=in_words)
        follower.follow(options.attempt, options.tail)
        return 0
    path, attempt = _chosen(paths, options, worker_in(row["facts"]))
    with _opened(path) as stream:
        if options.json:
            _print_json(path, attempt, stream, options, _masker_of(repo))
        else:
            if options.tail:
                _to_tail(stream, options.tail)
            told = _retelling(repo, paths, options.agent, attempt) if in_words else None
            shown = sys.stdout.isatty() or told is not None
            printer = _Printer(_masker_of(repo, shown=shown), told)
            printer.take(stream)
            printer.finish()
    return 0


def _masker_of(repo: Path, *, shown: bool = True) -> Masker:
    """Return the masker of known secrets; an empty one for output that is passed on unchanged."""
    if not shown:
        return Masker()
    return masker_of(os.environ, load_settings(repo, environ=os.environ).pass_env)


def _retelling(repo: Path, paths: Paths, agent_id: str, attempt: int) -> ReadableOutput | None:
    """Return what puts the attempt's reports into words; None where its program makes none."""
    name = read_program(paths.database, agent_id, attempt).partition(":")[0]
    if not name:
        return None
    adapter = adapters().get(name)
    if adapter is None or not adapter.programs:
        return None
    place = load_settings(repo, environ=os.environ).worktrees_dir
    folder = worktrees_dir(repo, place, os.environ) / agent_id
    return ReadableOutput(adapter, now, str(folder))


class _Printer:
    """Passes bytes on as they are, or line by line made safe if a terminal shows them.

    What is made safe is masked once more: without its escapes, a secret may stand there whole.
    """

    def __init__(self, masker: Masker, told: ReadableOutput | None = None) -> None:
        self._safely = sys.stdout.isatty()
        self._shown = masker.stream()
        self._told = told
        self._colours = told is not None and coloured(sys.stdout, os.environ)
        self._begins = True
        """What comes next begins a line."""
        self._rest = b""

    def take(self, stream: Any) -> None:
        """Print all there is at the moment."""
        while chunk := stream.read(_CHUNK):
            # Of a log above its cap the middle is freed while it is written, and reads as zeros.
            self._print(chunk.replace(b"\0", b""))
        sys.stdout.flush()

    def finish(self) -> None:
        """Print what has no end of line."""
        if self._told is not None:
            self._write_safely(self._told.end())
        if self._rest:
            self._write_safely(self._rest.decode(errors="replace"))
            self._rest = b""
        self._write_masked(self._shown.end())
        sys.stdout.flush()

    def _write_safely(self, text: str) -> None:
        self._write_masked(self._shown.feed(clean(text).encode(errors="replace")))

    def _write_masked(self, data: bytes) -> None:
        text = safe(data.decode(errors="replace"), lines=True)
        _write(self._painted(text).encode(errors="replace"))

    def _painted(self, text: str) -> str:
        """Let what went wrong stand out, and what the agent ran."""
        if not self._colours or not text:
            return text
        first, *others = text.split("\n")
        lines = [_in_colour(first) if self._begins else first, *map(_in_colour, others)]
        self._begins = not lines[-1]
        return "\n".join(lines)

    def _print(self, chunk: bytes) -> None:
        if self._told is not None:
            self._write_safely(self._told.take(chunk))
            return
        if not self._safely:
            _write(chunk)
            return
        whole, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
        self._write_safely((whole + newline).decode(errors="replace"))
        if len(self._rest) > _LONGEST_LINE:
            self.finish()


class _Follower:
    """Prints attempt after attempt while they happen."""

    def __init__(
        self, repo: Path, paths: Paths, agent_id: str, masker: Masker, *, in_words: bool
    ) -> None:
        self._repo, self._paths, self._agent_id = repo, paths, agent_id
        self._masker = masker
        self._in_words = in_words
        self._is_over = False
        self._places: dict[int, int] = {}
        """How far each attempt is printed; one that starts once more adds to its log."""

    def follow(self, attempt: int | None, tail: int | None) -> None:
        """Print one attempt to its end; or, if none is named, the latest and all after it."""
        at = max(_attempts(self._paths, self._agent_id), default=None)
        at = attempt if attempt is not None else at
        if at is None:
            at = self._next(0)
        while at is not None:
            self._print_one(at, tail)
            at, tail = (self._next(at) if attempt is None else None), None

    def _print_one(self, attempt: int, tail: int | None) -> None:
        path = self._paths.log(self._agent_id, attempt)
        if not path.exists():
            raise UsageError(f"there is no log of attempt {attempt} of {self._agent_id}")
        tell(f"==> attempt {attempt}")
        told = (
            _retelling(self._repo, self._paths, self._agent_id, attempt) if self._in_words else None
        )
        printer = _Printer(self._masker, told)
        with _opened(path) as stream:
            stream.seek(self._places.get(attempt, 0))
            if tail:
                _to_tail(stream, tail)
            while True:
                live = self._look() == attempt
                printer.take(stream)
                if not live:
                    break
                time.sleep(LOOK_EVERY)
            self._places[attempt] = stream.tell()
        printer.finish()

    def _next(self, attempt: int) -> int | None:
        """Wait for another agent; it has the same number again if the attempt was interrupted."""
        while True:
            there = [each for each in _attempts(self._paths, self._agent_id) if each > attempt]
            live = self._look()
            if there or (live is not None and self._paths.log(self._agent_id, live).exists()):
                return there[0] if there else live
            if live is None and self._is_over:
                return None
            time.sleep(LOOK_EVERY)

    def _look(self) -> int | None:
        """Return the number of the attempt whose agent lives, if one does."""
        alone = holder(self._paths.root) is None
        row = _row(self._repo, self._paths, self._agent_id)
        self._is_over = alone or row["work_kind"] in OVER
        return row["attempt"] if not alone and row["work_kind"] in LIVE else None


def _row(repo: Path, paths: Paths, agent_id: str) -> dict[str, Any]:
    if paths.database.exists():
        rows = read_rows(paths.database, agent_id=agent_id, limit=1)
        if rows:
            return rows[0]
    raise UsageError(
        f"there is no lifecycle {safe(agent_id)!r} in {repo}; `loopwright ps --all` lists all"
    )


def _attempts(paths: Paths, agent_id: str, ending: str = ".log") -> list[int]:
    folder = paths.log(agent_id, 0).parent
    names = [path.name.removesuffix(ending) for path in folder.glob(f"*{ending}")]
    return sorted(int(name) for name in names if name.isdigit())


def _chosen(paths: Paths, options: Namespace, worker: str) -> tuple[Path, int]:
    agent_id, gate, setup = options.agent, options.gate, options.setup
    ending = f".gate-{gate}.log" if gate else f".setup-{setup}.log" if setup else ".log"
    there = _attempts(paths, agent_id, ending)
    attempt = options.attempt if options.attempt is not None else max(there, default=None)
    if attempt is None or attempt not in there:
        what = f"verify command {gate} of " if gate else ""
        what = f"set-up command {setup} of " if setup else what
        which = f"attempt {attempt}" if attempt is not None else "any attempt"
        known = ", ".join(map(str, there))
        told = [f"there are logs of the attempts {known}"] if known else []
        told += [f"worker {worker} hands it in when the attempt has ended"] if worker else []
        hint = "; ".join(told) or "nothing was printed yet"
        raise UsageError(f"there is no log of {what}{which} of {agent_id}; {hint}")
    if gate:
        return paths.gate_log(agent_id, attempt, gate), attempt
    if setup:
        return paths.setup_log(agent_id, attempt, setup), attempt
    return paths.log(agent_id, attempt), attempt


def _opened(path: Path) -> Any:
    """Open a log; what an agent may have put in its place is not followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags), "rb", buffering=0)


def _to_tail(stream: Any, lines: int) -> None:
    """Move to where the last lines begin."""
    end = place = stream.seek(0, os.SEEK_END)
    found = 0
    while place > 0:
        start = max(place - _CHUNK, 0)
        stream.seek(start)
        chunk = stream.read(place - start)
        at = len(chunk)
        while (at := chunk.rfind(b"\n", 0, at)) >= 0:
            if start + at + 1 == end:
                continue
            found += 1
            if found == lines:
                stream.seek(start + at + 1)
                return
        place = start
    stream.seek(0)


def _print_json(path: Path, attempt: int, stream: Any, options: Namespace, masker: Masker) -> None:
    if options.tail:
        _to_tail(stream, options.tail)
    text = stream.readall().replace(b"\0", b"").decode(errors="replace")
    say(
        to_json(
            {
                "agent_id": options.agent,
                "attempt": attempt,
                "gate": options.gate,
                "setup": options.setup,
                "path": str(path),
                "text": masker.mask(text),
            }
        )
    )


def _in_colour(line: str) -> str:
    colour = {TROUBLE: "red", COMMAND: "bold"}.get(line[:2], "")
    return paint(line, colour, wanted=True)


def _write(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
