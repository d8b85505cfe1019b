"""A plan file that is written while it is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from lifecycle.plan import Plan
from lifecycle.settings import Settings
from orchestrator.config.plans import load_plan
from orchestrator.runner import plan_reload

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_what_is_written_during_a_reading_is_read_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told, real = tmp_path / "plan.toml", list[str](), load_plan
    shared = SimpleNamespace(settings=Settings)
    reload = plan_reload.PlanReload(
        cast("Any", SimpleNamespace(shared=shared)), path, Plan(tasks=()),
        cast("Any", SimpleNamespace(held=())),
    )  # fmt: skip
    loops = cast("Any", SimpleNamespace(note=told.append))

    def slowly(path: Path, approvals: Any) -> Plan:
        try:
            return real(path, approvals)
        finally:
            if not told:
                path.write_text("a = 1\nand this is no TOML")

    monkeypatch.setattr(plan_reload, "load_plan", slowly)
    path.write_text("no TOML at all")
    await reload.look(loops)
    await reload.look(loops)
    await reload.look(loops)
    assert ["plan.toml:2" in text for text in told] == [False, True]
