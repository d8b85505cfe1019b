"""Long transcripts of agent programs, made of recorded runs; and the reading of one, measured.

    python -m bench.transcripts PROGRAM FILE TIMES [--along]     # reads it, prints figures as JSON

Reads in a process of its own, so that nothing but the reading is in its memory. `--along` reads as
the loop does beside a living agent, without it as `loopwright agents outcome` does.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from lifecycle.attempt.output_monitor import READ_AT_ONCE, Monitor
from orchestrator.control import agents
from runtime.agents.catalogue import built_in

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "tests" / "runtime" / "agents" / "transcripts"
PROGRAMS = ("claude", "codex", "gemini", "opencode")
NOON = 1795003200.0
_PIECE = 1 << 20
_SAID = b"I will write the breakpoint."
_MUCH = b"long word " * 90_000
"""Nearly as long as a line may be."""
_RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded run, cut into what comes once and what comes again and again."""

    head: tuple[bytes, ...]
    body: tuple[bytes, ...]
    """Whole turns, with all kinds of lines that the run has."""
    unneeded: tuple[bytes, ...]
    """Those of the body that the outcome does not need: no first of an answer, no call, no sum."""
    tail: tuple[bytes, ...]

    @property
    def long(self) -> tuple[bytes, ...]:
        """What the agent says, said at great length."""
        return tuple(line.replace(_SAID, _MUCH) for line in self.body if _SAID in line)


def recorded(program: str) -> Recorded:
    """Return the run of a program that went well."""
    lines = tuple((RUNS / program / "ok.stdout").read_bytes().splitlines(keepends=True))
    match program:
        case "claude":
            # The text of an answer again, as a later block of it; and what tools told.
            return Recorded(lines[:2], lines[1:-1], (lines[1], lines[3]), lines[-1:])
        case "codex":
            return Recorded(lines[:3], lines[3:-1], lines[3:-1], lines[-1:])
        case "gemini":
            return Recorded(lines[:1], lines[1:-1], lines[1:-1], lines[-1:])
        case "opencode":
            kinds = (b'{"type":"text"', b'{"type":"tool_use"')
            unneeded = tuple(line for line in lines if line.startswith(kinds))
            return Recorded(lines[:1], lines[1:], unneeded, lines[-1:])
    raise ValueError(f"there is no run of {program!r} to make a transcript of")


def write(path: Path, run: Recorded, lines: tuple[bytes, ...], size: int) -> int:
    """Write a transcript of at least `size` bytes with these lines in its middle; its length."""
    turn = b"".join(lines)
    piece = turn * -(-_PIECE // len(turn))
    with path.open("wb") as out:
        written = out.write(b"".join(run.head))
        while written < size:
            written += out.write(piece)
        written += out.write(b"".join(run.tail))
    return written


# --- reading, in a process of its own ---------------------------------------------------------


def main() -> None:
    """Read a transcript so many times; print CPU seconds of each, and memory in bytes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("file", type=Path)
    parser.add_argument("times", type=int)
    parser.add_argument("--along", action="store_true")
    asked = parser.parse_args()
    small = asked.file.with_name(f"{asked.file.name}.small")
    run = recorded(asked.program)
    write(small, run, run.body, 10_000)
    _read(asked.program, small, along=asked.along)  # what is loaded when it is first needed
    small.unlink()
    before = _forget_peak()
    seconds = [_read(asked.program, asked.file, along=asked.along) for _ in range(asked.times)]
    peak = _peak()
    size = asked.file.stat().st_size
    told = {"bytes": size, "seconds": seconds, "more": peak - before, "whole": peak}
    json.dump(told, sys.stdout)


def _read(program: str, path: Path, *, along: bool) -> float:
    """Return the CPU seconds that one reading took; it must be judged as the run was."""
    adapter = built_in(program)
    began = time.process_time()
    if along:
        monitor = Monitor(adapter, path, 0, lambda: NOON)
        for _ in range(0, path.stat().st_size, READ_AT_ONCE):
            monitor.listen()
        told = monitor.finish(0, None, None, spoke=True)
        took, ended = time.process_time() - began, told and told.ended.value
    else:
        outcome = agents.judged(adapter, agents.Recorded(path, 0), lambda: NOON)
        took, ended = time.process_time() - began, outcome.outcome.value
    if ended not in ("completed", "no_breakpoint", "breakpoint"):
        raise RuntimeError(f"the transcript of {program} was judged {ended!r}")
    return took


def _forget_peak() -> int:
    """Reset the peak where that can be done; return the memory that is used now."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
        return _status("VmRSS")
    except OSError:
        return _peak()


def _peak() -> int:
    try:
        return _status("VmHWM")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main()
