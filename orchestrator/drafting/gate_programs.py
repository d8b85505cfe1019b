"""Whether the verify commands of a draft can start: their syntax, and the programs they name.

Runs none of them. What only a shell can find out, such as the value of a variable, counts as there.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BUILT_IN = frozenset({
    ".", ":", "[", "[[", "alias", "bg", "break", "cd", "command", "continue", "echo", "eval",
    "exec", "exit", "export", "false", "fg", "getopts", "hash", "jobs", "kill", "local", "printf",
    "pwd", "read", "readonly", "return", "set", "shift", "test", "times", "trap", "true", "type",
    "ulimit", "umask", "unalias", "unset", "wait",
})  # fmt: skip
_BEFORE = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "("})
"""Words after which a command begins."""
_OTHER = frozenset({"for", "case", "select", "function", "in", "esac"})
"""Words after which it is not looked further: what follows is no command."""
_ENDS = frozenset({"fi", "done", "}", ")"})
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_UNKNOWN = frozenset("$`*?~")
"""Letters of a word that only a shell can read."""
_SECONDS = 5.0


def cannot_start(command: str, found: Callable[[str], bool]) -> str:
    """Return why a command cannot start; empty if it can. `found` knows the programs."""
    if problem := _syntax(command):
        return problem
    missing = [name for name in _programs(command) if not found(name)]
    if not missing:
        return ""
    are = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)} {are} not there"


def _syntax(command: str) -> str:
    """Have the shell read it, and not run it."""
    if not command.strip():
        return "it is empty"
    try:
        done = subprocess.run(
            ["sh", "-n", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        return f"the shell cannot read it: {problem}"
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
    return f"the shell cannot read it: {lines[-1]}"


def _programs(command: str) -> Iterator[str]:
    """Return the programs that a command line names, as far as they can be told."""
    words = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    words.commenters, words.whitespace_split = "", True
    begins, moved = True, False
    try:
        listed = list(words)
    except ValueError:  # the shell reads it, and we do not: nothing can be told
        return
    for word in listed:
        if set(word) <= set("();<>|&") or word in _BEFORE:
            begins = not set(word) & set("<>")
            continue
        if word in _OTHER:
            return
        if not begins or _ASSIGNED.match(word):
            continue
        begins = False
        if word in _ENDS or word in _BUILT_IN or set(word) & _UNKNOWN:
            moved = moved or word == "cd"
            continue
        if not (moved and "/" in word and not word.startswith("/")):
            yield word
