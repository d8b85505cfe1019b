"""Each public function of the library has an example that a test runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lifecycle import (
    AgentLifecycle,
    AgentLifecycleLoop,
    AgentSpawner,
    ContextBuilder,
    LifecycleManager,
    LoopResult,
    Plan,
    Supervisor,
)
from lifecycle.fleet import AgentRegistry
from lifecycle.fleet.supervisor import AgentFactory
from lifecycle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "as-a-library.md"
EXAMPLES = "\n".join(
    re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
)
"""Each of them is run by tests/acceptance/test_library_page.py."""
PUBLIC = (
    AgentFactory,
    AgentLifecycle,
    AgentLifecycleLoop,
    AgentRegistry,
    AgentSpawner,
    ContextBuilder,
    LifecycleManager,
    LoopResult,
    Plan,
    Supervisor,
)
OF_THE_STORE = (
    *("open", "in_memory", "create", "update", "get", "delete", "list"),
    *("create_lifecycle", "update_lifecycle", "get_lifecycle", "delete_lifecycle"),
)
"""What else it offers is for engines and commands."""


def functions() -> Iterator[tuple[type, str]]:
    for each in PUBLIC:
        for name, _ in inspect.getmembers(each, inspect.isroutine):
            ours = getattr(inspect.getattr_static(each, name), "__module__", "") or ""
            if (
                not name.startswith(("_", "model_", "derive"))
                and ours.partition(".")[0] == "lifecycle"
            ):
                yield each, name
    for name in OF_THE_STORE:
        yield SqliteStore, name


@pytest.mark.parametrize(("owner", "name"), list(functions()), ids=str)
def test_each_public_function_has_an_example(owner: type, name: str) -> None:
    called = re.search(rf"\.{name}\b", EXAMPLES)
    assert called, f"docs/how-to/as-a-library.md shows no use of {owner.__name__}.{name}"
