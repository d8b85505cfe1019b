"""The budgets that the settings name, for commands that only look and must start fast.

Owns the short way alone, which passes over all other settings. Where a budget is not written
plainly, or a name may be a slip of the pen for one, `orchestrator.config` judges all of them.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lifecycle.machine.money import UNITS
from orchestrator.sources import layers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMES = tuple(f"{scope}budget_{unit}" for scope in ("", "plan_", "day_") for unit in UNITS)
_OTHERS = ("budget_exempt",)
"""Settings that are called alike and limit nothing."""
_WHOLE = ("tokens", "attempts")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_LARGEST = 1e15
"""Beyond it, numbers are no longer told apart; nobody has such a budget."""


def limits_of(repo: Path, environ: Mapping[str, str]) -> Mapping[str, float]:
    """Return the budgets that are set, by their names; ConfigError as `load_settings` has it."""
    found: dict[str, float] = {}
    for layer in layers(repo, environ):
        for name, value in layer.values.items():
            if name in NAMES:
                number = _plain(name, value)
                if number is None:
                    return _judged(repo, environ)
                found[name] = number
            elif name not in _OTHERS and _is_near(name):
                return _judged(repo, environ)
    return found


def _is_near(name: str) -> bool:
    return bool(get_close_matches(name.lower().replace("-", "_"), NAMES, n=1))


def _plain(name: str, value: object) -> float | None:
    """Return a value that nobody could read otherwise; None where it has to be judged."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LARGEST:
        return None
    if not name.endswith(_WHOLE):
        return float(value)
    return value if isinstance(value, int) else None


def _judged(repo: Path, environ: Mapping[str, str]) -> Mapping[str, float]:
    from orchestrator.config import load_settings  # noqa: PLC0415  # slow: only where it is needed

    settings = load_settings(repo, environ=environ)
    given = {name: getattr(settings, name) for name in NAMES}
    return {name: value for name, value in given.items() if value is not None}
