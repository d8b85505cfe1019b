"""Which source of settings wins, and what is refused.

Command line > LOOPWRIGHT_* > loopwright.toml > [tool.loopwright] in pyproject.toml > user file. An
unknown name or a value out of range is refused with its place. What a setting means is decided
in `lifecycle.settings`, where the sources are in `sources`; files are only read, never written.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import shlex
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from lifecycle.errors import LifecycleError, PlanError
from lifecycle.notify.channel import NotifyChannel, as_values
from lifecycle.settings import FORMER_NAMES, Settings
from orchestrator.approval.approvals import Approvals
from orchestrator.approval.held_settings import NAME_FILES, OF_THE_USER, ONE_CHOICE
from orchestrator.approval.restricting_values import SETTINGS_TABLES, name_of, setting_cells
from orchestrator.config.sources import PREFIX, Layer, layers, settings_files
from orchestrator.config.value_forms import (
    ENTRIES,
    allowed_values,
    is_list,
    is_table,
    not_finite,
    takes_bool,
)
from orchestrator.errors import ConfigError
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from pydantic_core import ErrorDetails

DEFAULT = "default"
FORMER = ", by the former name "
"""Marks the source of a value that was given under a former name of its setting."""
_SPLIT_INTO_WORDS = "command"
_SPLIT_AT_COMMAS = ("agents", "budget_exempt")
"""Lists that a plain text stands for word by word, or as on the command line; others take one line
as one item."""


_WRITTEN_WITHIN = 1.0
"""Seconds within which a program that deletes a file to rewrite it has done so."""


class _Stamp(NamedTuple):
    """What changes when a file changes."""

    time: int
    size: int
    inode: int


_Stamps = tuple[_Stamp | None, ...]


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as it is now, and who says so."""

    name: str
    value: Any
    source: str


def load_settings(
    repo: Path,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    approvals: Approvals | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Settings:
    """Read all sources once; `overrides` are the command line's, None in them is not given.

    `defaults` are in the place of ours. Set are, in pydantic's sense, those that a source names.
    """
    rows = explain_settings(repo, environ=environ, overrides=overrides, approvals=approvals)
    return _settings_of(rows, defaults or {})


def load_user_settings(
    environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Settings:
    """Read what is of no repository: your own file, variables, the command line."""
    values: dict[str, Any] = {}
    for layer in map(_renamed, _layers(None, environ, overrides or {})):
        values.update(_checked(layer))
    return Settings.model_validate(values)


def setting_alone(name: str, value: Any) -> Settings:
    """Return defaults with one value as a file says it; ConfigError if it cannot be that."""
    return Settings.model_validate(_checked(Layer({name: value}, lambda _: name)))


def _settings_of(rows: Iterable[SettingRow], defaults: Mapping[str, object]) -> Settings:
    named = {row.name: row.value for row in rows if row.source != DEFAULT}
    return Settings.model_validate({**defaults, **named})


def explain_settings(
    repo: Path,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    approvals: Approvals | None = None,
) -> list[SettingRow]:
    """Return every setting with its value and the place it comes from.

    What an agent changed of the repository's own files does not count before it is approved;
    `approvals` knows afterwards what waits.
    """
    approvals = approvals or Approvals(repo)
    values: dict[str, Any] = Settings().model_dump()
    sources = dict.fromkeys(values, DEFAULT)
    for layer in map(_renamed, _approved(_layers(repo, environ, overrides or {}), approvals)):
        checked = _checked(layer)
        for name in _ousted(layer, checked):
            values[name], sources[name] = Settings.model_fields[name].default, DEFAULT
        values.update(checked)
        sources.update({name: layer.where(name) for name in checked})
    for name in NAME_FILES:
        if waiting := approvals.files_named(name, values.get(name)):
            values[name] = Settings.model_fields[name].default
            sources[name] = f"{DEFAULT}, because an agent changed {waiting}"
    return [SettingRow(name, values[name], sources[name]) for name in values]


def _approved(layers: Iterator[Layer], approvals: Approvals) -> list[Layer]:
    """Put approved values in the place of those that wait."""
    read = list(layers)
    cells: dict[str, Any] = {}
    for layer in read:
        if layer.file:
            cells |= setting_cells(layer.file, layer.values)
    approvals.begin()
    instead = approvals.settings(cells, SETTINGS_TABLES)
    return [_with_approved(layer, instead, approvals) if layer.file else layer for layer in read]


def _with_approved(layer: Layer, instead: Mapping[str, Any], approvals: Approvals) -> Layer:
    kept = {
        name: value
        for cell, value in instead.items()
        for file, name in (name_of(cell),)
        if file == layer.file
    }
    if any(name in ONE_CHOICE for name in kept):  # one choice: all of it is as it was
        kept |= {name: approvals.approved(layer.file, name) for name in ONE_CHOICE}
    values = {name: value for name, value in layer.values.items() if name not in kept}
    values |= {name: value for name, value in kept.items() if value is not None}
    return replace(
        layer,
        values=values,
        where=lambda name: (
            f"{layer.file}, as a person approved it" if name in kept else layer.where(name)
        ),
    )


def _renamed(layer: Layer) -> Layer:
    """Give values under a former name of a setting its present name.

    Approvals come before: they know a value by the name that the file has for it.
    """
    former = {FORMER_NAMES[name]: name for name in layer.values if name in FORMER_NAMES}
    for name, old in former.items():
        if name in layer.values:
            raise ConfigError(
                f"{layer.where(old)}: {old} is the former name of {name}, which is set as well; "
                f"keep only {name}"
            )
    values = {FORMER_NAMES.get(name, name): value for name, value in layer.values.items()}
    return replace(
        layer,
        values=values,
        where=lambda name: (
            f"{layer.where(former[name])}{FORMER}{former[name]}"
            if name in former
            else layer.where(name)
        ),
    )


def _ousted(layer: Layer, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a source makes void of weaker ones: who names an agent names the only one."""
    named = [name for name in ONE_CHOICE if name in values]
    said = [name for name in named if values[name]]
    if len(said) > 1:
        first, second = said[:2]
        raise ConfigError(
            f"{layer.where(second)}: {second} and {first} (from {layer.where(first)}) both say "
            "which agent program works; keep one of them"
        )
    return ONE_CHOICE if named else ()


class SettingsReader:
    """Gives the settings as they are now; a file that became bad leaves the last good ones.

    Looks only at the files' stamps unless one changed. The first reading raises ConfigError; later
    ones tell `report` once per change instead, because a loop must not die of a typing mistake.
    """

    def __init__(
        self,
        repo: Path,
        *,
        environ: Mapping[str, str],
        overrides: Mapping[str, object] | None = None,
        defaults: Mapping[str, object] | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._repo, self._environ, self._overrides = repo, dict(environ), dict(overrides or {})
        self._defaults, self._report = dict(defaults or {}), report
        self._files = settings_files(repo, environ)
        self._named: tuple[Path, ...] = ()
        self.approvals = Approvals(repo)
        self._gone_since: float | None = None
        self._warned: set[str] = set()
        self._stamps = self._look()
        self._settings = self._read()

    def __call__(self) -> Settings:
        """Return the current settings."""
        stamps = self._look()
        if stamps == self._stamps:
            self._gone_since = None
            if not self.approvals.stale():
                return self._settings
        if self._being_written(stamps):
            return self._settings
        try:
            read = self._read()
        except (ConfigError, LifecycleError, RuntimeFault) as problem:
            self._stamps = stamps
            if self._report is not None:
                self._report(f"{problem}; the previous settings stay in force")
            return self._settings
        if self._look()[: len(self._files)] == stamps[: len(self._files)]:
            self._stamps, self._settings = stamps, read
        return self._settings

    def _being_written(self, stamps: _Stamps) -> bool:
        """Tell whether a file was deleted a moment ago: git does so before it rewrites it.

        A missing file must not count as a person's change.
        """
        there = zip(self._stamps, stamps, strict=False)
        if not any(before and before.size and not (now and now.size) for before, now in there):
            self._gone_since = None
            return False
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        return now - self._gone_since < _WRITTEN_WITHIN

    def _read(self) -> Settings:
        rows = explain_settings(
            self._repo,
            environ=self._environ,
            overrides=self._overrides,
            approvals=self.approvals,
        )
        settings = _settings_of(rows, self._defaults)
        for row in rows:
            if FORMER in row.source and row.name not in self._warned and self._report is not None:
                self._warned.add(row.name)
                self._report(f"{row.source}: write {row.name}")
        self._named = tuple(self._repo / file for file in self.approvals.named)
        return settings

    def _look(self) -> _Stamps:
        return tuple(_stamp(path) for path in (*self._files, *self._named))


def _layers(
    repo: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]
) -> Iterator[Layer]:
    for layer in layers(repo, environ):
        if layer.is_text:
            values = {name: _from_text(name, text) for name, text in layer.values.items()}
            yield replace(layer, values=values)
        else:
            yield layer
    given = {name: value for name, value in overrides.items() if value is not None}
    yield Layer(given, lambda name: f"--{name.replace('_', '-')}")


def _from_text(name: str, text: str) -> Any:
    """Read a list or a table from a variable; the other kinds are read by the model itself."""
    known = FORMER_NAMES.get(name, name)
    for kind, begin in (("list", "["), ("table", "{")):
        is_of_kind = is_list(known) if kind == "list" else is_table(known)
        if is_of_kind and text.lstrip().startswith(begin):
            try:
                return json.loads(text)
            except ValueError as problem:
                raise ConfigError(
                    f"{PREFIX}{name.upper()}: {text!r} starts like a JSON {kind} but is not valid "
                    f"({problem})"
                ) from problem
    return text


def _checked(layer: Layer) -> dict[str, Any]:
    for name in layer.values:
        if name not in Settings.model_fields:
            raise ConfigError(f"{layer.where(name)}: {_unknown(name)}")
        if layer.file and name in OF_THE_USER:
            raise ConfigError(
                f"{layer.where(name)}: {name} is about several repositories, and agents can write "
                "this file; move it to your own one, ~/.config/loopwright/config.toml"
            )
    prepared = {name: _prepared(layer, name, value) for name, value in layer.values.items()}
    try:
        settings = Settings.model_validate(prepared)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        name = str(first["loc"][0])
        if len(first["loc"]) > 1 and name in ENTRIES:
            raise _bad_entry(layer, name, first) from problem
        if first["type"] == "value_error":
            # It says itself what is wrong, and leaves out what may be secret.
            raise _refused(layer, name, first["ctx"]["error"]) from problem
        raise _bad(layer, name, layer.values[name]) from problem
    checked = {name: as_values(getattr(settings, name)) for name in prepared}
    _check_programs(layer, checked)
    return checked


def _check_programs(layer: Layer, values: Mapping[str, Any]) -> None:
    """Refuse names that no agent program has, where they are said."""
    for setting in ("adapter", "agents", "prices", "budget_exempt"):
        given = values.get(setting)
        if given is None or given in ((), {}):
            continue
        from lifecycle.launch.programs import COMMAND, named  # noqa: PLC0415  # it loads adapters

        for name in (given,) if isinstance(given, str) else given:
            if name == COMMAND and setting == "budget_exempt":
                continue
            try:
                named(name)
            except PlanError as problem:
                raise _refused(layer, setting, problem) from problem


def _prepared(layer: Layer, name: str, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise _bad(layer, name, value)
    field = Settings.model_fields[name]
    if isinstance(value, bool) is not takes_bool(name) and not isinstance(value, str):
        raise _bad(layer, name, value)
    if isinstance(value, str) and field.annotation is float and not_finite(value):
        raise _bad(layer, name, value)
    if is_list(name) and isinstance(value, str):
        if name in _SPLIT_AT_COMMAS:
            return tuple(each.strip() for each in re.split(r"[,\n]", value.strip()))
        if name != _SPLIT_INTO_WORDS:
            return tuple(line for line in value.splitlines() if line.strip())
        try:
            return tuple(shlex.split(value))
        except ValueError as problem:
            raise ConfigError(f"{layer.where(name)}: {name} = {value!r}: {problem}") from problem
    return value


def _refused(layer: Layer, name: str, problem: Exception) -> ConfigError:
    return ConfigError(f"{layer.where(name)}: {name}: {problem}")


def _bad(layer: Layer, name: str, value: Any) -> ConfigError:
    shown = json.dumps(value, default=str)
    return ConfigError(f"{layer.where(name)}: {name} must be {allowed_values(name)}, not {shown}")


def _bad_entry(layer: Layer, name: str, found: ErrorDetails) -> ConfigError:
    """Name the key of the entry that is wrong, and its line. Values may be secret: not shown."""
    _, number, *keys = found["loc"]
    place = ".".join(map(str, (name, number, *keys[:1])))
    if found["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(keys[0]), NotifyChannel.model_fields, n=1)
        told = f"there is no key {str(keys[0])!r}" + (
            f"; did you mean {near[0]!r}?" if near else ""
        )
    elif not keys and found["type"] == "model_type":
        told = f"it must be {allowed_values(name)}"
    else:
        said = found["msg"].removeprefix("Value error, ")
        told = f"{keys[0]}: {said}" if keys else said
    return ConfigError(f"{layer.where(place)}: [[{name}]]: {told}")


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower().replace("-", "_"), Settings.model_fields, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "; `loopwright schema settings` lists all"
    return f"there is no setting {name!r}{hint}"


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _Stamp(found.st_mtime_ns, found.st_size, found.st_ino)
