"""What the machine under the tests gives."""

from __future__ import annotations

from typing import Any

from lifecycle.launch import sandbox
from lifecycle.settings import Settings
from runtime.errors import SpawnError


def gives(**settings: Any) -> bool:
    """Tell whether agents can be held as these settings ask for."""
    try:
        sandbox.check(Settings.model_validate(settings))
    except SpawnError:
        return False
    return True
