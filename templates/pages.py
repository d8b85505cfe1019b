"""The two pages an agent gets: the summary within its size limit, and the prompt.

Owns the limit on the summary and the example of a signal. The wording is in the templates, the
order in which facts are dropped in `size_budget`. It must not know lifecycles.
"""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from templates.fence import cap, cut, line
from templates.size_budget import LEVELS, Values, trim

if TYPE_CHECKING:
    from templates.renderer import Renderer

_TASK_BEGINS, _TASK_ENDS = "\x00task\x01", "\x00task\x02"
"""Enclose the task in a rendered summary; other text contains no control characters."""
_SPAWN_ID = "\x00"
_PATH = 1000
"""Characters of the longest path that is shown."""


class Summary(NamedTuple):
    """One summary: as it is kept, and without the task, as it is in a prompt."""

    whole: str
    without_task: str


def summary_page(renderer: Renderer, values: Values, max_bytes: int) -> Summary:
    """Render the summary in at most `max_bytes` of UTF-8, however much there is to tell.

    A person's own text is taken as it is. Else the facts are trimmed level by level until the page
    fits; if it never does, its end is cut off and the page says so.
    """
    left_out: list[str] = []
    page = bare = ""
    if values["person_summary"] is not None:
        page = bare = renderer.mask(values["person_summary"].rstrip("\n")) + "\n"
    else:
        for level in range(len(LEVELS)):
            shown = trim(values, level)
            shown["task_begins"], shown["task_ends"] = _TASK_BEGINS, _TASK_ENDS
            page, left_out = renderer.render("summary.md.j2", shown), shown["left_out"]
            page, bare = _apart(page)
            if _size(page) <= max_bytes:
                break
    return Summary(_fitted(page, max_bytes, left_out), _fitted(bare, max_bytes, left_out))


def prompt_page(renderer: Renderer, values: Values, summary: Summary) -> str:
    """Render the prompt around a summary; it contains the whole task once."""
    example = _signal_example(values["agent_id"], values["task_id"], bool(values["spawn_id"]))
    told = {
        "signal_tool": "",
        "command_path": "",
        "loopwright": _typed(values.get("command_path", "")),
        "remarks": (),
        **values,
        "summary": summary.without_task,
        "signal_example": example.replace(json.dumps(_SPAWN_ID), json.dumps(values["spawn_id"])),
    }
    return renderer.render("prompt.md.j2", told)


def _typed(path: str) -> str:
    """Return how a shell is told to run `loopwright`: by its path, as login shells reset PATH."""
    plain = line(path, _PATH)
    return shlex.quote(path) if path and path == plain and "`" not in path else "loopwright"


def _apart(page: str) -> tuple[str, str]:
    """Return a page with its task and without it."""
    before, begins, rest = page.partition(_TASK_BEGINS)
    task, ends, after = rest.partition(_TASK_ENDS)
    if not begins or not ends:  # a template of the user's that does not mark its task
        return page, page
    return before + task + after, before + after


def _fitted(page: str, max_bytes: int, left_out: list[str]) -> str:
    if _size(page) <= max_bytes:
        return page
    named = "".join(f"{line(part, 80)}, " for part in left_out)
    note = (
        f"\n\n## Left out\n\n{cap(named, 500)}and the end of this page: "
        f"it had {_size(page)} bytes, {max_bytes} are allowed.\n"
    )
    return cut(page, max_bytes - _size(note)) + note


@lru_cache(maxsize=128)
def _signal_example(agent_id: str, task_id: str, with_spawn_id: bool) -> str:  # noqa: FBT001  # private, and a key of the cache
    entry = {
        "lifecycle_state": "complete",
        "breakpoint": {
            "type": "task_complete",
            "task_id": task_id,
            "summary": "What you did and how you checked it",
            **({"spawn_id": _SPAWN_ID} if with_spawn_id else {}),
        },
    }
    return json.dumps({agent_id: entry}, indent=2)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
