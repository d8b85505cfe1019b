"""The agent that is measured with: as little of a program as can be, which stamps its own times.

It is compiled when a C compiler is there, so that its own start does not hide what is measured.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* agent STAMPS exit CODE AFTER_MS | agent STAMPS say DELAY_MS FILE TEXT | agent STAMPS stay */
int main(int argc, char **argv) {
    double times[2] = {now(), 0};
    int stamps = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (!strcmp(argv[2], "exit")) {
        if (atoi(argv[4])) usleep(atoi(argv[4]) * 1000);
        times[1] = now();
        if (write(stamps, times, sizeof times) != sizeof times) return 99;
        _exit(atoi(argv[3]));
    }
    if (!strcmp(argv[2], "say")) {
        char fresh[4096];
        const char *file = getenv("LOOPWRIGHT_COMM_FILE");
        if (argv[4][0]) file = argv[4];
        snprintf(fresh, sizeof fresh, "%s.new", file);
        usleep(atoi(argv[3]) * 1000);
        int out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (write(out, argv[5], strlen(argv[5])) < 0) return 98;
        close(out);
        times[1] = now();
        if (write(stamps, times, sizeof times) != sizeof times) return 99;
        rename(fresh, file);
    } else {
        if (write(stamps, times, sizeof times) != sizeof times) return 99;
    }
    signal(SIGTERM, SIG_DFL);
    for (;;) pause();
}
"""

SCRIPT = r"""#!/usr/bin/env python3
import os, sys, time
times = [time.monotonic(), 0.0]
import struct, signal
def stamp():
    with open(sys.argv[1], "ab", 0) as stamps:
        stamps.write(struct.pack("dd", *times))
if sys.argv[2] == "exit":
    time.sleep(int(sys.argv[4]) / 1000)
    times[1] = time.monotonic()
    stamp()
    os._exit(int(sys.argv[3]))
if sys.argv[2] == "say":
    file = sys.argv[4] or os.environ["LOOPWRIGHT_COMM_FILE"]
    time.sleep(int(sys.argv[3]) / 1000)
    with open(file + ".new", "w") as out:
        out.write(sys.argv[5])
    times[1] = time.monotonic()
    stamp()
    os.replace(file + ".new", file)
else:
    stamp()
while True:
    signal.pause()
"""


@dataclass(frozen=True, slots=True)
class BenchAgent:
    """A built agent; its command lines are ready to be given to a loop or to `exec`."""

    program: Path
    compiled: bool

    def exits(self, stamps: Path, *, after_ms: int = 0) -> tuple[str, ...]:
        """End after a while, with exit code 1."""
        return (str(self.program), str(stamps), "exit", "1", str(after_ms))

    def says(
        self, stamps: Path, text: str, *, delay_ms: int = 0, file: Path | None = None
    ) -> tuple[str, ...]:
        """Write the text as communications.json after a while, then stay until ended."""
        return (str(self.program), str(stamps), "say", str(delay_ms), str(file or ""), text)

    def stays(self, stamps: Path) -> tuple[str, ...]:
        """Stay until ended."""
        return (str(self.program), str(stamps), "stay")


def build(folder: Path) -> BenchAgent:
    """Compile the agent, static where possible; without a compiler it is a slow script."""
    program = folder / "agent"
    return BenchAgent(program, compiled=compiled(program, SOURCE, SCRIPT))


def compiled(program: Path, source: str, script: str) -> bool:
    """Make a program of C source, else, and then it is False, of the script."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is not None:
        written = program.with_suffix(".c")
        written.write_text(source)
        for more in (["-static"], []):
            made = subprocess.run(
                [compiler, "-O2", *more, "-o", str(program), str(written)],
                capture_output=True,
                check=False,
            )
            if made.returncode == 0:
                return True
    program.write_text(script)
    program.chmod(0o700)
    return False


def stamps_of(path: Path) -> list[tuple[float, float]]:
    """Return when each agent started and spoke its last, in the order of those ends."""
    if not path.exists():
        return []
    return list(struct.iter_unpack("dd", path.read_bytes()))


def gaps(path: Path) -> list[float]:
    """Return the seconds from the end (or word) of each agent to the start of the next."""
    stamps = stamps_of(path)
    return [after[0] - before[1] for before, after in pairwise(stamps)]
