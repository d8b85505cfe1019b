"""A repository in which all that agents, tasks, files and forges say is an attack on pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.orchestrator.web.browser import programs as p
from tests.orchestrator.web.browser.scene import Scene

if TYPE_CHECKING:
    from pathlib import Path

SIGN = "window.pwned=1"
"""What each attack wants to have run."""
SCRIPT = f"<script>{SIGN}</script>"
WORDS = (
    f'{SCRIPT}"><img src=x onerror="{SIGN}"><svg onload="{SIGN}"><style>*{{display:none}}</style>'
    f"[press](javascript:{SIGN}) ![seen](http://evil.example/pixel.png) "
    f"<a href='javascript:{SIGN}'>here</a> "
    "{{ 7 * 7 }} {% raw %} ${7*7} </textarea></title></pre> --> ]]> "
    "\u202emoc.live\u202c \u2066hidden\u2069 \x1b[31mred\x1b]0;title\x07 \x00\x08 &lt;b&gt;"
)
SAID = WORDS.replace("\x00", "")
FILE = '<img src=x onerror="window.pwned=1">.py'
OTHER = "a\u202egpj.exe"
LONG = "x" * 1_000_000
GATE = "echo '<script>window.pwned=1</script>'; printf '\\033[31mred\\033[0m\\n'; true"
_BRANCH = {"run": {"argv": ["git", "branch", '"><img/src=x/onerror=window.pwned=1>'],
                   "may_fail": True}}  # fmt: skip


def _attempt(*last: object) -> list[object]:
    return [
        p.claude_begins(),
        p.claude_says(SAID),
        p.claude_calls("Bash", command=f"echo {SCRIPT}"),
        p.claude_calls(SCRIPT, file_path=FILE),
        {"say": SAID},
        {"err": SAID},
        {"say": LONG},
        _BRANCH,
        {"write": {"path": FILE, "text": f"{SAID}\n{'y' * 5000}\n"}},
        {"write": {"path": OTHER, "text": SAID}},
        {"write": {"path": f"tests/test_{FILE}", "text": f"# {SAID}\n"}},
        {"commit": SAID},
        *last,
    ]


SCRIPTS = {
    "T01": _attempt(p.done(SAID)),
    "T02": _attempt(p.asks(SAID, SAID)),
    "T03": _attempt(p.blocked(SAID, SAID[:80])),
    "T04": {
        "attempts": {"1": _attempt(p.claude_ends(1000, SAID), {"exit": 1}), "default": [p.DONE]}
    },
    "T05": _attempt({"hang": {}}),
}
IN_THE_END = {"T01": "done", "T02": "needs you", "T03": "waiting", "T04": "done", "T05": "working"}


def hostile_night(folder: Path) -> Scene:
    """Play it."""
    scene = Scene(folder, SCRIPTS)
    scene.begin_plan(_plan())
    try:
        for task in IN_THE_END:
            scene.post(f"/lifecycles/agent-{task}/guide", None, text=SAID)
        scene.hook({"event": SAID, "branch": SAID, "url": f"javascript:{SIGN}"}, SCRIPT)
        scene.comes_to(**IN_THE_END)
    except BaseException:
        scene.end()
        raise
    return scene


def _plan() -> str:
    tasks = [
        {
            "id": task,
            "title": SAID[:200],
            "description": SAID,
            "acceptance": [SAID],
            "verify": [GATE] if task == "T01" else [],
        }
        for task in SCRIPTS
    ]
    agents = {"claude": {"adapter": "claude"}}
    return json.dumps({"name": f"{SCRIPT}-plan", "agents": agents, "tasks": tasks})
