"""Refuses a verdict for which the commands would use the code of another checkout.

Owns whose fault that is, and the words about what is not inherited. What is found is `runtime`'s.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lifecycle.machine.states import Gate
from lifecycle.setup.checkouts import stale_hint
from runtime.code_origin.finder import find
from runtime.code_origin.findings import told
from runtime.code_origin.scripts import calls
from runtime.code_origin.working_trees import Trees
from runtime.environment import in_folder, withheld_program
from runtime.errors import OtherCodeError
from runtime.setup.made_by_setup import JUDGING, read_stamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lifecycle.paths import Paths
    from lifecycle.services import MachineServices
    from lifecycle.settings import Settings
    from runtime.code_origin.findings import ForeignCode
    from runtime.commands import CommandResult
    from runtime.process import TerminalManager


def made_in(paths: Paths, folder: Path) -> tuple[str, ...]:
    """Return what the set-up made in a judging checkout."""
    stamp = read_stamp(paths.setup(folder.name), JUDGING)
    return stamp.made if stamp is not None else ()


def finder(
    repo: Path, paths: Paths, terminals: TerminalManager, settings: Callable[[], Settings]
) -> Callable[[Path, tuple[str, ...]], tuple[ForeignCode, ...]]:
    """Return what looks for code from outside a checkout."""

    def look(folder: Path, commands: tuple[str, ...]) -> tuple[ForeignCode, ...]:
        if folder == repo:  # there is only this one
            return ()
        # Beside it are the checkouts of other lifecycles.
        trees = Trees.of(repo, paths.root, folder.parent)
        env = terminals.command_environment(folder, made_in(paths, folder))
        if settings().isolation == "container" and settings().sandbox_image:
            # An image has programs of its own; of these folders it sees this one alone.
            own = [each for each in env["PATH"].split(os.pathsep) if each.startswith(f"{folder}/")]
            env["PATH"] = os.pathsep.join(own)
        return find(folder, trees, commands, env)

    return look


def other_code(
    machine: MachineServices, folder: Path, commands: tuple[str, ...], *, is_baseline: bool
) -> Gate | None:
    """Refuse what only a person can fix; what the commit itself names is a red gate.

    On the untouched code all of it is a person's. OtherCodeError says what, where and what to do.
    """
    found = machine.other_code(folder, commands)  # some files, once for each verdict
    theirs = [each for each in found if is_baseline or not each.committed]
    if theirs:
        raise OtherCodeError(told(theirs))
    if not found:
        return None
    text = told(found)
    return Gate(command="the code that the commands would use", ok=False, code=1, excerpt=text)


def hint(machine: MachineServices, folder: Path, result: CommandResult) -> str:
    """Say of a red command what may have made it red beside the change.

    A program that is not the one which the user's own shell finds; what the set-up built before.
    """
    for call in calls(result.command) if machine.withheld else ():
        place = withheld_program(call.program, machine.withheld) if call.program else ""
        if place and not in_folder(call.program, folder):
            return (
                f"\n[{place} was not used: it belongs to your own checkout, and what it imports "
                "may, too. Let `setup` install what the commands need in each checkout; "
                "`loopwright doctor` says more]"
            )
    stale = stale_hint(machine, folder.name)
    return f"\n[{stale}]" if stale else ""
