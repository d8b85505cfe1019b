"""Errors of the lifecycle package, grouped by whose fault they are."""

from __future__ import annotations

from runtime.errors import ShortageError


class LifecycleError(Exception):
    """Anything this package raises on purpose; the text says what, where and what to do."""


class PlanError(LifecycleError):
    """The user's plan cannot be run as written."""


class ArgumentError(LifecycleError, TypeError):
    """An argument of the library is of another type than it has to be."""


class SettingsError(LifecycleError):
    """A setting has an unknown name or an impossible value."""


class UnknownLifecycleError(LifecycleError):
    """No record has this id."""


class ConflictingUpdateError(LifecycleError):
    """Another writer changed the record since it was read."""


class IllegalStateChangeError(LifecycleError):
    """A record that no loop drives was to change into a state that cannot follow."""


class StoreError(LifecycleError):
    """The store cannot be opened or written."""


class StoreShortError(StoreError, ShortageError):
    """The machine is short of what it takes to open the store; tried again, it may be opened."""


class StoreFromNewerVersionError(StoreError):
    """The database was written by a newer Loopwright; this one must not touch it."""


class StoreDamagedError(StoreError):
    """The database is not readable as such; it was set aside, never overwritten."""


class RecordsLostError(StoreError):
    """There is no database where loops ran before; a new one is made only if a person says so."""


class StateGoneError(StoreError):
    """The lock or the records of a running loop were moved or replaced: it cannot continue."""


class RepositoryBusyError(LifecycleError):
    """Another runner owns this repository."""
