"""What a tool call is about, in one line: its command, its file, what it searches for.

Knows the names that programs give to such fields, and nothing of what a call means for a run. It
must not raise, whatever it is given.
"""

from __future__ import annotations

import re
import shlex

from runtime.agents.parsing import fields as f

ROOM = 300
"""Characters of what a call is about."""
FAILURE_ROOM = 400
"""Characters of what a failed tool said, its end first."""
_SHELLS = frozenset(
    {
        *("bash", "shell", "sh", "zsh", "powershell", "terminal", "exec", "local_shell"),
        *("run_shell_command", "command_execution", "execute_command", "run_command"),
    }
)
_ABOUT = (
    *("pattern", "query", "url", "file_path", "filePath", "absolute_path", "notebook_path"),
    *("path", "dir_path", "skill", "description", "question", "title", "prompt", "text"),
)
"""Names of fields that say what a call is about, the best first."""
_WRAPPED = re.compile(r"(?:\S*/)?(?:ba|z|da)?sh -l?c (?=['\"])")
"""A shell that only starts the command."""


def is_shell(name: str) -> bool:
    """Tell whether a tool runs commands."""
    return name.lower() in _SHELLS


def about(name: str, given: f.Fields) -> str:
    """Return what a call of a tool is about, from what the tool was given; '' if it does not say.

    Of a command without the shell that only starts it.
    """
    if is_shell(name) and (command := given.get("command") or given.get("cmd")):
        return f.line_of(_command(command), ROOM)
    found = next((text for key in _ABOUT if (text := f.text(given, key).strip())), "")
    return f.line_of(found, ROOM)


def of_files(paths: list[str]) -> str:
    """Return what a call is about that changes several files at once."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f.line_of(paths[0], ROOM) + more if paths else ""


def failure(output: object) -> str:
    """Return the end of what a failed tool said; '' if it said nothing."""
    if isinstance(output, list):
        parts = [f.text(each, "text") for each in output if isinstance(each, dict)]
        output = "\n".join(filter(None, parts))
    if not isinstance(output, str):
        return ""
    return f.tidy(output[-4 * FAILURE_ROOM :], 4 * FAILURE_ROOM)[-FAILURE_ROOM:].lstrip()


def _command(command: object) -> str:
    if isinstance(command, list):
        command = shlex.join(str(each) for each in command)
    text = command if isinstance(command, str) else ""
    if _WRAPPED.match(text):
        try:
            parts = shlex.split(text)
        except ValueError:  # a quote is open
            return text
        if len(parts) == 3:  # noqa: PLR2004  # the shell, its option, the command
            return parts[2]
    return text
