"""Programs that report as claude and codex do, played by the scripted agent under their names."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from lifecycle.plan import Agent
from tests.lifecycle.world import AGENT, ROOT, Step, World

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

Script = list[Step] | dict[int, list[Step]]


class Programs:
    """Puts fake programs before all others on the PATH."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world = world
        self._folder: Path = world.folder / "bin"
        self._folder.mkdir()
        monkeypatch.setenv("PATH", f"{self._folder}{os.pathsep}{os.environ['PATH']}")

    def plays(self, name: str, script: Script) -> None:
        """Let a program do as a script says; its arguments and variables are kept beside it."""
        path = self._world.script(script)
        words = shlex.join([sys.executable, "-S", "-P", "-m", "runtime.agents.scripted", str(path)])
        kept = shlex.quote(str(self._folder / name))
        program = self._folder / name
        program.write_text(
            "#!/bin/sh\n"
            f"printf '%s\\n' \"$@\" > {kept}.$LOOPWRIGHT_ATTEMPT.args\n"
            f"env > {kept}.$LOOPWRIGHT_ATTEMPT.env\n"
            f"PYTHONPATH={shlex.quote(str(ROOT))} exec {words}\n"
        )
        program.chmod(0o755)

    def arguments(self, name: str, attempt: int = 1) -> list[str]:
        """Return what a program was given on its command line."""
        return (self._folder / f"{name}.{attempt}.args").read_text().splitlines()

    def variables(self, name: str, attempt: int = 1) -> dict[str, str]:
        """Return the variables that a program got."""
        lines = (self._folder / f"{name}.{attempt}.env").read_text().splitlines()
        return dict(line.partition("=")[::2] for line in lines if "=" in line)


def agent(*programs: str, **env: str) -> Agent:
    """Return an agent that is one of these programs, the first that can."""
    if len(programs) == 1:
        return Agent(agent_id=AGENT, adapter=programs[0], env=env)
    return Agent(agent_id=AGENT, agents=programs, env=env)


# --- what claude prints -----------------------------------------------------------------------


def starts(model: str = "m-large") -> Step:
    return _prints({"type": "system", "subtype": "init", "session_id": "s-1", "model": model})


def uses(tool: str, call: str = "c1") -> Step:
    content = [{"type": "tool_use", "id": call, "name": tool, "input": {}}]
    return _prints({"type": "assistant", "message": {"id": call, "content": content}})


def spends(tokens: int, message: str = "a1") -> Step:
    """Answer with a text, and say what it took."""
    return _prints(
        {
            "type": "assistant",
            "message": {
                "id": message,
                "content": [{"type": "text", "text": "Working."}],
                "usage": {"input_tokens": tokens, "output_tokens": 0},
            },
        }
    )


def finishes(words: str = "All done.", *, tokens: int = 100, cost: float = 0.25) -> Step:
    return _prints(
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": words,
            "usage": {"input_tokens": tokens, "output_tokens": 20},
            "model_usage_since_last_result": {
                "m-large": {"inputTokens": tokens, "outputTokens": 20, "costUSD": cost}
            },
            "total_cost_usd": cost,
        }
    )


def fails(words: str, status: int, error: str) -> list[Step]:
    """End as claude does when its provider refuses: told as text, then as a bad result."""
    content = [{"type": "text", "text": words}]
    message = {"id": "e1", "model": "<synthetic>", "content": content}
    return [
        _prints({"type": "assistant", "message": message, "error": error}),
        _prints(
            {
                "type": "result",
                "subtype": "success",
                "is_error": True,
                "api_error_status": status,
                "result": words,
            }
        ),
        {"exit": 1},
    ]


def limited(reset_at: float) -> list[Step]:
    """Meet a subscription's limit whose end is told."""
    info = {"status": "rejected", "resetsAt": round(reset_at), "rateLimitType": "five_hour"}
    return [
        _prints({"type": "rate_limit_event", "rate_limit_info": info}),
        *fails("You've hit your limit", 429, "rate_limit"),
    ]


def asks_again(error: str, status: int, *, delay_ms: int = 500) -> Step:
    return _prints(
        {
            "type": "system",
            "subtype": "api_retry",
            "attempt": 1,
            "max_retries": 10,
            "retry_delay_ms": delay_ms,
            "error_status": status,
            "error": error,
        }
    )


# --- what codex prints ------------------------------------------------------------------------


def codex_starts() -> Step:
    return _prints({"type": "thread.started", "thread_id": "t-1"})


def codex_uses(tokens: int) -> Step:
    """End a turn, and say what it took."""
    return _prints({"type": "turn.completed", "usage": {"input_tokens": tokens}})


def _prints(line: dict[str, Any]) -> Step:
    return {"say": json.dumps(line, separators=(",", ":"))}
