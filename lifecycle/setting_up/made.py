"""Tells what the set-up made in a workspace from the agent's work there; reads one small file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.setup.stamps import WORKSPACE, read_stamp

if TYPE_CHECKING:
    from lifecycle.paths import Paths
    from runtime.tree import TreeStatus


def made_by_setup(paths: Paths, agent_id: str) -> tuple[str, ...]:
    """Return what the set-up made in an agent's workspace; it is no work of the agent.

    Paths are relative to its top folder, and a folder ends with `/`.
    """
    stamp = read_stamp(paths.setup(agent_id), WORKSPACE)
    return stamp.made if stamp is not None else ()


def own_work(paths: Paths, agent_id: str, status: TreeStatus) -> TreeStatus:
    """Return where a workspace stands without what the set-up made there."""
    made = made_by_setup(paths, agent_id) if status.untracked else ()
    if not made:
        return status
    files, folders = set(made), tuple(name for name in made if name.endswith("/"))
    own = (name for name in status.untracked if name not in files and not name.startswith(folders))
    return replace(status, untracked=tuple(own))
