"""What can go wrong with each real program, and what a loop is to make of it. Data alone.

Measured with the versions of `tests/tools/agents/package.json`. What only its own program knows:

* claude tries again ten times, some three minutes, and tells each try: a limit ends it if the next
  try is a minute away, other trouble when it gives up (`CLAUDE_CODE_MAX_RETRIES` makes that short).
* codex says at once that a plan's limit is reached, with the minute at which it ends; it waits as
  long as a provider asks, and without a network it tries again for ever, so it is ended. A command
  that a rule forbids is in its log only.
* gemini tries again for minutes without a word (`maxAttempts` makes that short here). It names no
  end for what a day grants, only for a minute's limit. It tells a cut answer as "terminated".
* opencode tries again for more than a minute, waits as long as a provider asks and shortens a full
  context for ever, all in silence: only its log, which the adapter asks for, tells. That names no
  end of a limit, so growing spans are waited.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.models.script import Fault, Hang, Say, Shell, answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.models.script import Turn

RESETS_IN = 3600
FEW = {"CLAUDE_CODE_MAX_RETRIES": "2"}
ALL = {"CLAUDE_CODE_MAX_RETRIES": ""}
SOON: Mapping[str, float] = {"TROUBLED_AFTER": 2.0, "HOPELESS_AFTER": 2.0}
"""Of the monitor: how long a program may retry by itself against trouble, and against a limit."""
FORBIDDEN = "touch forbidden"
DENYING: Mapping[str, Mapping[str, str]] = {
    "claude": {".claude/settings.json": json.dumps({"permissions": {"deny": ["Bash(touch:*)"]}})},
    "codex": {
        ".codex/rules/default.rules": 'prefix_rule(pattern=["touch"], decision="forbidden")\n'
    },
    "gemini": {
        ".gemini/policies/no.toml": (
            '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "touch"\n'
            'decision = "deny"\npriority = 999\n'
        )
    },
    # Beside opencode.json, which says where the model is.
    "opencode": {
        ".config/opencode/config.json": json.dumps({"permission": {"bash": {"touch *": "deny"}}})
    },
}
"""How a user forbids a command in the program's own settings."""


@dataclass(frozen=True)
class Row:
    """One fault of one program, and what follows."""

    turn: Turn
    """What the model does, again and again."""
    ended: str
    """As the ledger calls it."""
    told: str
    """A pattern of what the user reads of it."""
    resets: float | None = None
    """Seconds after which the limit is over, where the program told."""
    env: Mapping[str, str] = field(default_factory=lambda: FEW)
    unreachable: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    patience: Mapping[str, float] = field(default_factory=dict)
    """Constants of the monitor that are made short."""


LIMIT = Fault("rate_limit")
BUSY = Fault("overloaded")
WRONG_KEY = Fault("auth", message="this key is wrong")
FULL = Fault("context")
CUT = answer("half of a sentence that is long enough", cut=True)
CUT_CALL = answer(Shell("true"), cut=True)
"""Half of a text counts as getting on, so opencode would be left to try for longer."""
CLOSED = "onnection (was closed unexpectedly|reset by server)"
TRIES: tuple[Turn, ...] = (Shell(FORBIDDEN), Say("I could not do it."))
SILENT = {"idle_limit": 2.5}
HUNG = "no output, no file change and no CPU use for 2.5 s"

ROWS: Mapping[str, Mapping[str, Row]] = {
    "claude": {
        "limit_with_reset": Row(
            Fault("usage_limit"), "rate_limit", "You've hit your 5-hour limit", resets=RESETS_IN
        ),
        "limit_without_reset": Row(LIMIT, "rate_limit", "rate_limit 429", env=ALL, patience=SOON),
        "overload": Row(BUSY, "overloaded", "529 Overloaded"),
        "auth": Row(WRONG_KEY, "auth", "`claude setup-token`"),
        "context": Row(FULL, "context_overflow", "Prompt is too long"),
        "denied": Row(Hang(), "denied", "not permitted: Bash"),
        "cut": Row(CUT, "network", "Connection to the API was lost"),
        "down": Row(Hang(), "network", "Connection refused", unreachable=True),
        "hang": Row(Hang(), "hang", HUNG, settings=SILENT),
    },
    "codex": {
        "limit_with_reset": Row(
            Fault("usage_limit"), "rate_limit", "hit your usage limit", resets=RESETS_IN
        ),
        "limit_without_reset": Row(LIMIT, "rate_limit", "429 Too Many Requests"),
        "limit_waited_out": Row(
            Fault("rate_limit", retry_after=RESETS_IN),
            "rate_limit",
            "429 Too Many Requests",
            patience=SOON,
        ),
        "overload": Row(BUSY, "overloaded", "at capacity"),
        "auth": Row(WRONG_KEY, "auth", "Run `codex login`"),
        "context": Row(FULL, "context_overflow", "ran out of room"),
        "denied": Row(Hang(), "denied", "not permitted: command_execution"),
        "cut": Row(CUT, "network", "stream disconnected before completion"),
        "down": Row(Hang(), "network", "waiting for network", unreachable=True, patience=SOON),
        "hang": Row(Hang(), "hang", HUNG, settings=SILENT),
    },
    "gemini": {
        "limit_with_reset": Row(
            Fault("rate_limit", retry_after=RESETS_IN),
            "rate_limit",
            "requests per minute",
            resets=RESETS_IN,
        ),
        "limit_without_reset": Row(Fault("usage_limit"), "quota", "exhausted your daily quota"),
        "overload": Row(BUSY, "overloaded", "The model is overloaded"),
        "auth": Row(WRONG_KEY, "auth", "pass GEMINI_API_KEY on"),
        "context": Row(FULL, "context_overflow", "exceeds the maximum number of tokens"),
        "denied": Row(Hang(), "denied", "not permitted: run_shell_command"),
        "cut": Row(CUT, "network", "the answer of the model was cut off"),
        "down": Row(Hang(), "network", "fetch failed", unreachable=True),
        "hang": Row(Hang(), "hang", HUNG, settings=SILENT),
    },
    "opencode": {
        "limit_with_reset": Row(
            Fault("rate_limit", retry_after=RESETS_IN),
            "rate_limit",
            "Rate limit reached",
            patience=SOON,
        ),
        "limit_without_reset": Row(LIMIT, "rate_limit", "Rate limit reached", patience=SOON),
        "overload": Row(BUSY, "overloaded", "currently overloaded", patience=SOON),
        "auth": Row(WRONG_KEY, "auth", "Run `opencode auth login`"),
        "context": Row(FULL, "context_overflow", "exceeds the context window"),
        "denied": Row(Hang(), "denied", "not permitted: bash"),
        "cut": Row(CUT_CALL, "network", CLOSED, patience=SOON),
        "down": Row(Hang(), "network", "Cannot connect to API", unreachable=True, patience=SOON),
        "hang": Row(Hang(), "hang", HUNG, settings=SILENT),
    },
}
CASES = [(name, case) for name, rows in ROWS.items() for case in rows]


class Pays:
    """Which counter each ending is counted by; all others stay at nothing."""

    RETRY = "retry_count"
    LIMIT = "limits"
    TROUBLE = "troubles"
    NOBODY = ""


PAID_BY: Mapping[str, str] = {
    "rate_limit": Pays.LIMIT,
    "quota": Pays.LIMIT,
    "overloaded": Pays.TROUBLE,
    "network": Pays.TROUBLE,
    "auth": Pays.NOBODY,
    "context_overflow": Pays.RETRY,
    "denied": Pays.RETRY,
    "hang": Pays.RETRY,
}
