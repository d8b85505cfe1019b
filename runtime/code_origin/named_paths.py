"""Paths in another checkout that command lines, variables and manifests name."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from runtime.code_origin.findings import ForeignCode
from runtime.code_origin.scripts import PACKAGE
from runtime.git.safe_view import read_small_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from runtime.code_origin.scripts import Call, Script
    from runtime.code_origin.working_trees import Trees

LISTS = frozenset(
    {"PATH", "PYTHONPATH", "NODE_PATH", "GOPATH", "MYPYPATH", "PERL5LIB", "RUBYLIB", "CLASSPATH"}
)
"""Variables with lists of folders."""
_VARIABLES = LISTS | {
    *("VIRTUAL_ENV", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONSTARTUP", "NODE_OPTIONS"),
    *("CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "GOFLAGS", "GOWORK", "GOBIN"),
    *("PIPENV_PIPFILE", "BUNDLE_GEMFILE", "GEM_HOME", "GEM_PATH", "LD_LIBRARY_PATH"),
    *("JAVA_TOOL_OPTIONS", "PYTEST_ADDOPTS"),
}
_PREFIXES = ("CONDA_", "UV_", "POETRY_", "PDM_", "PIP_", "NPM_CONFIG_", "YARN_", "PNPM_")
_FOLDER_OPTIONS = frozenset({
    "-C", "--prefix", "--dir", "--cwd", "--directory", "--project", "--rootdir", "--confcutdir",
    "--manifest-path", "--target-dir", "-c", "--config",
})  # fmt: skip
"""Options of test and build programs that take the path of code or settings."""
MANIFESTS = (
    "go.mod", "go.work", "Cargo.toml", ".cargo/config.toml", "pyproject.toml", "setup.cfg",
    "pytest.ini", "tox.ini", "package.json", "tsconfig.json", ".npmrc", "requirements.txt",
)  # fmt: skip
_PATH_TEXT = re.compile(r"(?<![\w/:.])(?:file:(?://)?)?(/[^\s\"'<>,;()\[\]{}=:]+)")


def is_about_code(name: str) -> bool:
    """Tell whether a variable controls where code, packages or builds are found."""
    return name in _VARIABLES or name.upper().startswith(_PREFIXES)


def places(value: str) -> list[str]:
    """Return the absolute paths in the value of a variable."""
    return [word for word in re.split(r"[:\s=,]", value) if word.startswith("/")]


def in_calls(
    folder: Path, trees: Trees, calls: tuple[Call, ...], environ: Mapping[str, str]
) -> Iterator[ForeignCode]:
    """Find what a command line itself would use from another checkout."""
    for call in calls:
        for name, value in call.variables.items():
            if is_about_code(name):
                for place in _leading(value, folder, trees, environ):
                    yield ForeignCode(
                        f"{name} of the command names {place}",
                        folder,
                        "use a path relative to the folder: commands start there",
                    )
        for word in _named_folders(call):
            for place in _leading(word, folder, trees, environ):
                yield ForeignCode(
                    f"the command {' '.join(call.words[:2])} works in {place}",
                    folder,
                    "leave that path out: commands start in the folder that is judged",
                )


def in_variables(folder: Path, trees: Trees, environ: Mapping[str, str]) -> Iterator[ForeignCode]:
    """Find what the environment would use from another checkout."""
    for name, value in environ.items():
        if is_about_code(name):
            wrong = [each for each in places(value) if trees.leads(each, apart=folder)]
            if wrong:
                yield ForeignCode(
                    f"{name} names {wrong[0]}", folder, f"take {name} out of pass_env"
                )


def in_script(
    folder: Path, trees: Trees, script: Script, environ: Mapping[str, str]
) -> Iterator[ForeignCode]:
    """Find what a script that a command starts would use from another checkout."""
    for each in in_calls(folder, trees, script.calls, environ):
        yield replace(each, where=script.file, committed=script.committed)
    if script.file.name == PACKAGE:
        yield from _in_text(script.file, script.text, folder, trees)


def in_manifests(folder: Path, trees: Trees) -> Iterator[ForeignCode]:
    """Find full paths in committed settings of package managers and test programs."""
    for name in MANIFESTS:
        text = read_small_text(folder / name)
        if name == PACKAGE:
            text = _without_scripts(text)
        yield from _in_text(folder / name, text, folder, trees)


def _in_text(file: Path, text: str, folder: Path, trees: Trees) -> Iterator[ForeignCode]:
    for place in dict.fromkeys(_PATH_TEXT.findall(text)):
        # A text such as "/app" may be a URL path: only existing paths count.
        if (
            os.path.realpath(place) not in trees.users
            and os.path.lexists(place)
            and trees.leads(place, apart=folder)
        ):
            yield ForeignCode(
                f"{os.path.relpath(file, folder)} names {place}",
                file,
                "commit a path that begins at the file itself",
                committed=True,
            )


def _without_scripts(text: str) -> str:
    """Leave out the scripts, which only run if a command names them."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(said, dict):
        said.pop("scripts", None)
    return json.dumps(said, ensure_ascii=False)


def _named_folders(call: Call) -> Iterator[str]:
    words = call.words
    if words[:1] in (("cd",), ("pushd",)):
        yield from words[1:2]
    for option, value in zip_longest(words, words[1:], fillvalue=""):
        name, equals, joined = option.partition("=")
        if name in _FOLDER_OPTIONS:
            yield joined if equals else value


def _leading(text: str, folder: Path, trees: Trees, environ: Mapping[str, str]) -> Iterator[str]:
    for entry in re.split(r"[:\s,]", text):
        plain = _expanded(entry.rpartition("=")[2], environ)
        if "/" in plain or plain.startswith(".."):
            place = os.path.normpath(folder / plain)
            if trees.leads(place, apart=folder):
                yield place


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    if text == "~" or text.startswith("~/"):
        text = environ.get("HOME", "~") + text[1:]
    return re.sub(r"\$\{?(\w+)\}?", lambda found: environ.get(found[1], found[0]), text)
