"""Agents to put to the test: a good one, and what is changed in it to make it bad in one way.

The good one is a shell script with an adapter and parser of its own, as a third party would have.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from orchestrator.conformance.subject import AgentUnderTest, Bounds
from runtime.agents.adapter import Adapter, LaunchRequest, Stop, Target
from runtime.agents.events import Denied, Finished, Started, ToolCall
from runtime.agents.parsing import fields as f
from runtime.agents.parsing.parser import Clock, Events, Handler, Parser

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo
    from pathlib import Path

    from runtime.agents.outcome import Ending, RunOutcome

BOUNDS = Bounds(timeout=20, idle=0.5, log_cap=64 * 1024, memory=24 << 20, prompt=256 * 1024)
SHORT = replace(BOUNDS, timeout=1.2)
NOW = 1_800_000_000.0
KEY = "DEMO_API_KEY"
DOOR = "DEMO_BASE_URL"

CONNECT = (
    "import os, socket, time; from urllib.parse import urlsplit; "
    f'at = urlsplit(os.environ["{DOOR}"]); '
    "s = socket.create_connection((at.hostname, at.port)); "
    's.sendall(b"POST / HTTP/1.1\\r\\n\\r\\n")'
)
ASK = f"exec '{sys.executable}' -S -c '{CONNECT}; s.recv(1)'"
CHATTER = "while True: print(1, flush=True); time.sleep(0.02)"
ASK_AND_CHATTER = f"exec '{sys.executable}' -S -c '{CONNECT}\n{CHATTER}'"
READ = "cat > /dev/null"
SIGNAL = (
    """printf '{"%s":{"breakpoint":{"type":"task_complete","spawn_id":"%s"}}}' """
    """"$LOOPWRIGHT_AGENT_ID" "$LOOPWRIGHT_SPAWN_ID" > "$LOOPWRIGHT_COMM_FILE" """
)
TURNS: Mapping[int, str] = {
    1: READ,
    2: f"{READ}; {SIGNAL}",
    3: READ,
    4: f"{READ}; echo $$ > tool.started; sleep 600",
    5: f"""{READ}; echo '{{"type":"call"}}'; echo '{{"type":"denied","tool":"shell"}}'""",
    6: f"{READ}; nohup sleep 600 > /dev/null 2>&1 & echo $! > left.pid",
    7: f"{READ}; yes $(printf %0200d 0) | head -c 400000",
    8: f"{READ}; {ASK}",
}
"""What the good one does in each attempt."""


class DemoParser(Parser):
    """Reads the events of the good one."""

    program = "demo"

    def _reads_started(self, fields: f.Fields) -> Events:
        return (Started(f.text(fields, "session"), ""),)

    def _reads_call(self, fields: f.Fields) -> Events:
        return (ToolCall(f.text(fields, "id"), "shell"),)

    def _reads_refused(self, fields: f.Fields) -> Events:
        return (Denied(f.text(fields, "tool")),)

    def _reads_finished(self, fields: f.Fields) -> Events:
        return (Finished(ok=fields.get("ok") is True),)

    handlers: ClassVar[Mapping[str, Handler]] = {
        "started": _reads_started,
        "call": _reads_call,
        "denied": _reads_refused,
        "finished": _reads_finished,
    }


class PickyParser(DemoParser):
    """Raises on what it does not know."""

    def _read(self, kind: str, fields: f.Fields) -> Events:
        return tuple(self.handlers[kind](self, fields) or ())


class HoardingParser(DemoParser):
    """Keeps all that it reads, many times over."""

    def __init__(self, now: Clock, zone: tzinfo | None = None, *, live: bool = True) -> None:
        super().__init__(now, zone, live=live)
        self.hoard: list[bytearray] = []

    def feed(self, line: bytes) -> Events:
        self.hoard.append(bytearray(line * 400))
        return super().feed(line)


class CredulousParser(DemoParser):
    """Takes no notice of how the process ended."""

    def finish(
        self,
        exit_code: int | None,
        signal: int | None = None,
        stderr_tail: str = "",
        our_reason: Ending | None = None,
    ) -> RunOutcome:
        del exit_code, signal
        return super().finish(0, None, stderr_tail, our_reason)


ADAPTER = Adapter(
    name="demo",
    title="Demo agent",
    parser=DemoParser,
    tested=("1.2.3",),
    programs=("demo-agent",),
    keys=(KEY, DOOR),
    files=lambda request: {"settings.json": f'{{"model":"{request.model}"}}'},
    settings_env=lambda request: {"DEMO_CONFIG": request.config_folder},
    stop=Stop(("TERM",), Target.GROUP, grace=0.3),
)


@dataclass(frozen=True)
class Agent:
    """An agent to test: the good one, with what is changed."""

    turns: Mapping[int, str] = field(default_factory=dict)
    """Other commands than the good one's, by attempt."""
    adapter: Adapter = ADAPTER
    version: str = "echo demo 1.2.3"
    bounds: Bounds = BOUNDS

    def subject(self, folder: Path, path: str) -> AgentUnderTest:
        """Write its program into the folder, and return what is to be tested."""
        program = folder / "demo-agent"
        program.write_text(self._script())
        program.chmod(0o755)
        return AgentUnderTest(
            adapter=self.adapter,
            request=LaunchRequest(program=str(program)),
            environ={"PATH": f"{folder}:{path}", KEY: "sk-of-the-user"},
            now=lambda: NOW,
            bounds=self.bounds,
        )

    def _script(self) -> str:
        turns = {**TURNS, **self.turns}
        arms = "\n".join(f"{attempt})\n{does}\n;;" for attempt, does in turns.items())
        return (
            f'#!/bin/sh\nif [ "$1" = --version ]; then {self.version}; exit; fi\n'
            'echo \'{"type":"started"}\'\n'
            f'case "$LOOPWRIGHT_ATTEMPT" in\n{arms}\nesac\n'
            'echo \'{"type":"finished","ok":true}\'\n'
        )


BAD: Mapping[str, tuple[str, Agent]] = {
    "tells no version": ("version", Agent(version="echo broken; false")),
    "is not there when asked": ("version", Agent(version="exit 3")),
    "leaves its prompt": ("turn", Agent({1: ":"})),
    "fails its turn": ("turn", Agent({1: f"{READ}; exit 3"})),
    "signals for another attempt": (
        "breakpoint",
        Agent({2: f"{READ}; LOOPWRIGHT_SPAWN_ID=old; {SIGNAL}"}),
    ),
    "signals nothing": ("breakpoint", Agent({2: READ})),
    "reads the start of its prompt": ("huge-prompt", Agent({3: "head -c 65536 > /dev/null"})),
    "ignores TERM": ("stop", Agent({4: f"trap '' TERM; {TURNS[4]}"})),
    "hides a denial": ("denied", Agent({5: f'{READ}; echo \'{{"type":"call"}}\''})),
    "waits to be permitted": ("denied", Agent({5: f"{READ}; sleep 600"}, bounds=SHORT)),
    "waits for its background": (
        "leftovers",
        Agent({6: f"{READ}; sleep 600 & echo $! > left.pid; wait"}, bounds=SHORT),
    ),
    "makes the runner hoard": ("flood", Agent(adapter=replace(ADAPTER, parser=HoardingParser))),
    "chatters while it hangs": ("hang", Agent({8: f"{READ}; {ASK_AND_CHATTER}"}, bounds=SHORT)),
    "calls no answer a good turn": (
        "hang",
        # It ends by itself; on a busy machine it may be slow to begin.
        Agent(
            {8: f"{READ}; '{sys.executable}' -S -c '{CONNECT}'"}, bounds=replace(BOUNDS, idle=10)
        ),
    ),
    "sets its forbidden key": (
        "environment",
        Agent(adapter=replace(ADAPTER, env={KEY: "sk-from-elsewhere"})),
    ),
    "opens its settings": ("config", Agent({1: f"{READ}; chmod 644 $DEMO_CONFIG/settings.json"})),
    "writes beside its folder": (
        "config",
        Agent(adapter=replace(ADAPTER, files=lambda _: {"../work/settings.json": "{}"})),
    ),
    "chokes on an unknown line": ("lines", Agent(adapter=replace(ADAPTER, parser=PickyParser))),
    "ignores the exit code": ("outcome", Agent(adapter=replace(ADAPTER, parser=CredulousParser))),
}
"""Bad agents, and the one case that each fails."""
