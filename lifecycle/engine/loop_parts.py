"""Checks what callers hand to a loop, and makes the parts that they leave out.

Must not start anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from ci.local.provider import LocalCIProvider
from lifecycle.errors import ArgumentError, PlanError
from lifecycle.plan import Plan, Task
from lifecycle.settings import Settings, checked_settings
from runtime.errors import RepositoryError
from runtime.git.git import NOT_A_REPOSITORY
from runtime.git.safe_view import locate
from runtime.workspace import WorkspaceManager
from runtime.workspaces.judging_checkouts import JudgingCheckouts
from runtime.workspaces.worktrees_dir import JUDGING, default_worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.ports import Workspaces

K = TypeVar("K")
SETTINGS_TOO = frozenset({"max_retries", "retry_interval"})
"""Arguments of the loop that are settings, too."""


def checkouts_beside(repo: Path, workspaces: Workspaces) -> JudgingCheckouts:
    """Return judging checkouts beside the workspaces, out of the user's tree."""
    if isinstance(workspaces, WorkspaceManager):
        return JudgingCheckouts(repo, root=workspaces.root / JUDGING)
    return JudgingCheckouts(repo, root=default_worktrees_dir(repo) / JUDGING)


def local_ci(repo: Path, settings: Settings) -> LocalCIProvider | None:
    """Return local CI where the settings name its command; refuse a forge, which is not built here.

    ArgumentError says so: a loop would wait for ever for what nobody asks about.
    """
    if forges := [name for name in settings.providers if name != "local"]:
        raise ArgumentError(
            f"providers names {', '.join(forges)}, which this does not build; give a provider as "
            "ci_provider=, or use `loopwright run` and `up`, which read the settings of a forge"
        )
    if not settings.test_command:
        return None
    return LocalCIProvider(
        repo,
        test_command=settings.test_command,
        timeout=settings.gate_timeout,
        auto_merge=settings.auto_merge,
    )


def require_repository(folder: Path) -> None:
    """Refuse a folder that belongs to no repository."""
    if locate(folder) is None:
        raise RepositoryError(NOT_A_REPOSITORY.format(path=folder))


def path_of(name: str, given: object) -> Path:
    """Return a path that was given as such or as text; refuse anything else by its name."""
    if not isinstance(given, (str, Path)):
        raise ArgumentError(f"{name} is {kind_of(given)}; give a path")
    return Path(given)


def settings_reader(
    settings: Settings | dict[str, Any] | Callable[[], Settings | dict[str, Any]] | None,
    named: dict[str, Any],
) -> Callable[[], Settings]:
    """Return what reads the settings; those that are named come before the others.

    Of these an argument of the loop, too, counts as not given while it is None.
    """
    named = {
        name: value for name, value in named.items() if not (value is None and name in SETTINGS_TOO)
    }
    checked = checked_settings(named).model_dump(include=set(named))

    def joined(read: Settings) -> Settings:
        if not checked:
            return read
        told = read.model_copy(update=checked)
        # What `told` counts as set is what the settings set, and what was given here.
        return told.naming_retries(checked["max_retries"]) if "max_retries" in checked else told

    if callable(settings):
        ask = settings
        return lambda: joined(_settings_of("what settings() returned", ask()))
    fixed = joined(_settings_of("settings", {} if settings is None else settings))
    return lambda: fixed


def _settings_of(name: str, given: object) -> Settings:
    if isinstance(given, Settings):
        return given
    return checked_settings(require_kind(name, given, dict))


def as_plan(given: object) -> Plan:
    """Return a plan of what the library's caller gives: a plan, tasks, one task, or None."""
    match given:
        case None:
            return Plan(tasks=())
        case Plan():
            return given
        case Task():
            tasks: tuple[object, ...] = (given,)
        case list() | tuple():
            tasks = tuple(given)
        case _:
            raise ArgumentError(
                f"plan is {kind_of(given)}; give a Plan, a list of tasks or one Task"
            )
    checked = [require_kind("a task of the plan", task, Task) for task in tasks]
    try:
        return Plan(tasks=checked)
    except ValidationError as problem:
        told = "; ".join(str(error["msg"]) for error in problem.errors())
        raise PlanError(f"these tasks are not a plan: {told}") from problem


def require_kind(name: str, given: object, kind: type[K]) -> K:
    """Return an argument of the library, or say of which type it has to be."""
    if not isinstance(given, kind):
        raise ArgumentError(f"{name} is {kind_of(given)}; give {_a(kind.__name__)}")
    return given


def kind_of(given: object) -> str:
    """Name the type of an argument, for an error."""
    return "None" if given is None else _a(type(given).__name__)


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOaeio' else 'a'} {noun}"
