"""A command that ran for a verdict, in the words of the verdict. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine.states import Gate

if TYPE_CHECKING:
    from runtime.commands import CommandResult


def gate_of(result: CommandResult, hint: str = "") -> Gate:
    """Say how a command went; the hint is for one that is red."""
    return Gate(
        command=result.command,
        ok=result.ok,
        code=None if result.timed_out else result.code,
        excerpt="" if result.ok else _shown(result) + hint,
        seconds=result.seconds,
        how=_how(result),
    )


def _how(result: CommandResult) -> str:
    if result.ok or result.timed_out:
        return ""
    if result.limit_reached:
        return f"met the {result.limit_reached}"
    return f"was ended by signal {result.signal}" if result.signal else ""


def _shown(result: CommandResult) -> str:
    if not result.limit_reached:
        return result.excerpt
    return f"{result.excerpt.rstrip()}\n[it met the {result.limit_reached}]"
