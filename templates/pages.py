"""The two pages an agent gets, as whole texts: the summary within its size, and the prompt.

Owns the bound on the summary and the example of a signal. The wording is in the templates, the
order in which facts give way in `budget`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from templates.budget import LEVELS, Values, trim
from templates.fence import cap, cut, line

if TYPE_CHECKING:
    from templates.renderer import Renderer


def summary_page(
    renderer: Renderer, values: Values, max_bytes: int, *, with_task: bool = True
) -> str:
    """Render the summary in at most `max_bytes` of UTF-8, however much there is to tell.

    A person's own text is taken as it is. Else the facts are trimmed level by level until the page
    fits; if it never does, its end is cut off and the page says so.
    """
    left_out: list[str] = []
    page = ""
    if values["person_summary"] is not None:
        page = values["person_summary"].rstrip("\n") + "\n"
    else:
        for level in range(len(LEVELS)):
            shown = {**trim(values, level), "with_task": with_task}
            page, left_out = renderer.render("summary.md.j2", shown), shown["left_out"]
            if _size(page) <= max_bytes:
                break
    if _size(page) <= max_bytes:
        return page
    named = "".join(f"{line(part, 80)}, " for part in left_out)
    note = (
        f"\n\n## Left out\n\n{cap(named, 500)}and the end of this page: "
        f"it had {_size(page)} bytes, {max_bytes} are allowed.\n"
    )
    return cut(page, max_bytes - _size(note)) + note


def prompt_page(renderer: Renderer, values: Values, max_bytes: int) -> str:
    """Render the prompt; the summary inside it has at most `max_bytes` and no second task text."""
    told = {
        **values,
        "summary": summary_page(renderer, values, max_bytes, with_task=False),
        "signal_example": _signal_example(values),
    }
    return renderer.render("prompt.md.j2", told)


def _signal_example(values: Values) -> str:
    entry = {
        "lifecycle_state": "complete",
        "breakpoint": {
            "type": "task_complete",
            "task_id": values["task_id"],
            "summary": "What you did and how you checked it",
            **({"spawn_id": values["spawn_id"]} if values["spawn_id"] else {}),
        },
    }
    return json.dumps({values["agent_id"]: entry}, indent=2)


def _size(text: str) -> int:
    return len(text.encode())
