"""An agent for the example: it knows only what stands in its prompt, as a fresh one does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

MODULE = Path("calc.py")
WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
EXPLAINED = 'def add(a, b):\n    """Return the sum of a and b."""\n    return a + b\n'


def commit(text: str, message: str) -> None:
    """Write the module and commit it."""
    MODULE.write_text(text, "utf-8")
    for command in (("add", "calc.py"), ("commit", "--quiet", f"--message={message}")):
        subprocess.run(("git", *command), check=True)


def signal(*words: str) -> None:
    """End this attempt at a breakpoint."""
    subprocess.run(("loopwright", "signal", *words), check=True)


def main() -> None:
    """Do what the prompt asks for."""
    prompt = sys.stdin.read()
    if "pull request was merged" in prompt:
        signal("task_complete", "--summary", "add() is merged, tested and explained")
    elif "## Review remarks" in prompt and "docstring" in prompt:
        commit(EXPLAINED, "Explain add() as the reviewer asked")
        remark = re.search(r"\*\*(r\w+)\*\* `calc\.py:", prompt)
        answer = ("--reply", f"{remark[1]}=Done: it says what it returns") if remark else ()
        signal("pr_created", "--summary", "add() has a docstring now", *answer)
    elif "step Run pytest" in prompt and "assert add(2, 2) == 4" in prompt:
        commit(RIGHT, "Add instead of subtracting: the step Run pytest failed")
        signal("pr_created", "--summary", "add() adds two numbers")
    else:
        commit(WRONG, "Write add()")
        signal("blocked", "--reason", "CI has to say whether add() works")


if __name__ == "__main__":
    main()
