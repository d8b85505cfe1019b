"""The task of an agent that drafts a plan: one lifecycle per draft, whose work is never merged.

Pure. What the agent is told of the goal, of its former draft, and of what was wrong with that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.plan import Task, default_agent_id
from orchestrator.terminal.text import one_line

if TYPE_CHECKING:
    from collections.abc import Collection

    from lifecycle.record import AgentLifecycle

TASK = "plan-draft"
AGENT = default_agent_id(TASK)
TAG = "plan-draft"
"""With the id it tells the lifecycle of a draft from a task that somebody named so."""
FILE = "plan.draft.toml"
"""Where the agent writes its draft, at the top of its workspace."""
SHOWN = 24 * 1024
"""Bytes of a former draft that the prompt shows; the rest is cut off."""
NAMED = 200
"""Ids of other tasks that the prompt names."""

_ASKED = """\
Write a plan for the goal below, and nothing else: other agents will do the work.

The goal:

{goal}

Read the repository first. Then write the plan into the file {file} at the top of your workspace,
commit this one file, and signal `task_complete` with one sentence about it. Other changes are
thrown away.

The file is TOML and has only these fields:

```toml
name = "a short name"

[[tasks]]
id = "T001"
title = "One line"
description = '''What is to be done, in full sentences.'''
dependencies = []
acceptance = ["What must be true at the end"]
verify = ["a shell command that succeeds only when it is done"]
```

Rules:

- Each task goes to an agent of its own, which knows the repository and the text of its task, and
  nothing else.
- A task is small enough for one session, and leaves the repository working.
- Tasks that do not depend on each other run at the same time. Tasks that change the same files
  depend on each other, in a sensible order and without a cycle.
- A verify command runs at the top of a fresh checkout. Its program exists here already, or in the
  repository.
- {general}
- Ids are 1 to 64 letters, digits, '.', '_' or '-'.{taken}"""


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What a person wants a plan for, and what was said of the drafts so far."""

    goal: str
    said: tuple[str, ...] = ()
    """Sentences of the person, the oldest first."""
    former: str = ""
    """The former draft; empty for the first."""
    problems: tuple[str, ...] = ()
    """What is wrong with the former draft."""


def is_draft(record: AgentLifecycle) -> bool:
    """Tell whether a lifecycle drafts a plan."""
    return record.agent_id.startswith(AGENT) and TAG in record.tags


def task_for(request: DraftRequest, verify: Collection[str], taken: Collection[str]) -> Task:
    """Return the task; `verify` are the general gates, `taken` ids of other tasks."""
    asked = _ASKED.format(
        goal=request.goal, file=FILE, general=_general(verify), taken=_used(taken)
    )
    return Task(
        id=TASK,
        title=f"Draft a plan: {one_line(request.goal, 60)}",
        description="\n\n".join((asked, *_of_former(request))),
        # Each process is fresh: it is told here what is wrong, not by gates of the repository.
        verify=(f"test -s {FILE}",),
        setup=(),
        tags=(TAG,),
        review_by="",
        max_retries=0,
    )


def _general(verify: Collection[str]) -> str:
    if not verify:
        return "A task without `verify` is not verified at all: give each task a command."
    listed = ", ".join(f"`{one_line(each, 200)}`" for each in verify)
    return f"A task without `verify` is verified by: {listed}."


def _used(taken: Collection[str]) -> str:
    if not taken:
        return ""
    ids = sorted(taken)
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return f"\n- These ids are used already: {', '.join(ids[:NAMED])}{more}."


def _of_former(request: DraftRequest) -> list[str]:
    """Return what there is to say of the drafts so far."""
    parts = []
    if request.former:
        kept = request.former.encode()[:SHOWN].decode(errors="ignore").rstrip()
        cut = "" if kept == request.former.rstrip() else "\n(the rest is cut off)"
        fence = "`" * max(3, _longest_ticks(kept) + 1)
        parts.append(f"Your former draft, to be improved:\n\n{fence}toml\n{kept}\n{fence}{cut}")
    if request.problems:
        listed = "\n".join(f"- {one_line(each, 500)}" for each in request.problems)
        parts.append(f"What is wrong with it:\n\n{listed}")
    if request.said:
        listed = "\n".join(f"- {each}" for each in request.said)
        parts.append(f"What the person says, the newest last:\n\n{listed}")
    return parts


def _longest_ticks(text: str) -> int:
    longest = run = 0
    for letter in text:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    return longest
