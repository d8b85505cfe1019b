"""Programs that stand for claude and codex: they print what those print, and do what a script says.

Each is a line of shell that plays the script of its task with `loopwright-agent`.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Step = dict[str, Any]
BIN = Path(sys.executable).parent
MODEL = "opus"
DOLLARS = 3e-6
"""What a token costs."""
_ids = itertools.count(1)

DONE = {"breakpoint": {"type": "task_complete", "summary": "done"}}


def done(summary: str) -> Step:
    """Return the step that reports a task as complete."""
    return {"breakpoint": {"type": "task_complete", "summary": summary}}


def asks(question: str, summary: str = "") -> Step:
    """Return the step that asks a person."""
    return {"breakpoint": {"type": "question", "question": question, "summary": summary}}


def blocked(reason: str, on: str) -> Step:
    """Return the step that says what an agent waits for."""
    return {"breakpoint": {"type": "blocked", "reason": reason, "blocked_on": [on]}}


def commits(message: str, **files: str) -> list[Step]:
    """Return the steps that write files and commit them; `__` in a name is a slash."""
    written = [
        {"write": {"path": name.replace("__", "/"), "text": text}} for name, text in files.items()
    ]
    return [*written, {"commit": message}]


def _line(fields: Mapping[str, Any]) -> Step:
    return {"say": json.dumps(fields, separators=(",", ":"), ensure_ascii=False)}


def claude_begins() -> Step:
    """Return the first line of claude."""
    return _line({"type": "system", "subtype": "init", "session_id": "s", "model": MODEL})


def claude_says(text: str, tokens: int = 900) -> Step:
    """Return an answer of claude."""
    return _claude({"type": "text", "text": text}, tokens)


def claude_calls(tool: str, tokens: int = 400, **given: Any) -> Step:
    """Return the call of a tool by claude."""
    use = {"type": "tool_use", "id": f"toolu_{next(_ids)}", "name": tool, "input": given}
    return _claude(use, tokens)


def _claude(content: Mapping[str, Any], tokens: int) -> Step:
    usage = {"input_tokens": tokens - 10, "output_tokens": 10}
    message: dict[str, Any] = {
        "id": f"msg_{next(_ids)}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
    }
    message |= {"content": [content], "usage": usage}
    return _line({"type": "assistant", "message": message, "parent_tool_use_id": None})


def claude_ends(tokens: int, words: str = "Done.") -> Step:
    """Return the last line of claude, with what it used."""
    cost = round(tokens * DOLLARS, 6)
    per = {"inputTokens": tokens, "outputTokens": 0, "costUSD": cost}
    fields: dict[str, Any] = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": words,
    }
    fields |= {"usage": {"input_tokens": tokens, "output_tokens": 0}, "stop_reason": "end_turn"}
    fields |= {"terminal_reason": "completed", "total_cost_usd": cost}
    return _line({**fields, "model_usage_since_last_result": {MODEL: per}})


def codex_begins() -> list[Step]:
    """Return the first lines of codex."""
    return [_line({"type": "thread.started", "thread_id": "t"}), _line({"type": "turn.started"})]


def codex_says(text: str) -> Step:
    """Return an answer of codex."""
    item = {"id": f"item_{next(_ids)}", "type": "agent_message", "text": text}
    return _line({"type": "item.completed", "item": item})


def codex_runs(command: str, output: str = "", code: int = 0) -> Step:
    """Return a command that codex ran."""
    item: dict[str, Any] = {
        "id": f"item_{next(_ids)}",
        "type": "command_execution",
        "command": command,
    }
    item |= {"aggregated_output": output, "exit_code": code, "status": "completed"}
    return _line({"type": "item.completed", "item": item})


def codex_ends(tokens: int) -> Step:
    """Return the last line of codex, with what it used."""
    return _line({"type": "turn.completed", "usage": {"input_tokens": tokens, "output_tokens": 0}})


def codex_is_limited() -> list[Step]:
    """Return how codex says that nothing is left of its quota, and ends."""
    words = "You’ve hit your usage limit. Try again later."  # noqa: RUF001  # as recorded
    failed = {"type": "turn.failed", "error": {"message": words}}
    return [
        *codex_begins(),
        _line({"type": "error", "message": words}),
        _line(failed),
        {"exit": 1},
    ]


def write(folder: Path, task: str, script: object) -> None:
    """Write what the agent of a task does."""
    place = folder / "scripts"
    place.mkdir(exist_ok=True)
    (place / f"{task}.json").write_text(json.dumps(script))


def install(folder: Path, scripts: Mapping[str, object]) -> Path:
    """Write the programs and the scripts of tasks; returns the folder for PATH."""
    played, programs = folder / "scripts", folder / "programs"
    programs.mkdir()
    for task, script in scripts.items():
        write(folder, task, script)
    for name in ("claude", "codex"):
        program = programs / name
        program.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = --version ] && echo "{name} 2.1.326" && exit 0\n'
            f'exec {BIN / "loopwright-agent"} "{played}/${{LOOPWRIGHT_AGENT_ID#agent-}}.json"\n'
        )
        program.chmod(0o755)
    return programs
