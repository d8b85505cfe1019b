"""What command lines, variables and manifests name that lies in another checkout."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from runtime.gitview import read_small
from runtime.right_code.findings import Finding
from runtime.right_code.following import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from runtime.right_code.following import Script
    from runtime.right_code.shellwords import Call
    from runtime.right_code.trees import Trees

LISTS = frozenset(
    {"PATH", "PYTHONPATH", "NODE_PATH", "GOPATH", "MYPYPATH", "PERL5LIB", "RUBYLIB", "CLASSPATH"}
)
"""Variables with several folders, each of which may be right or wrong."""
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
"""Options of test and build programs after which the place of code or settings is named."""
MANIFESTS = (
    "go.mod", "go.work", "Cargo.toml", ".cargo/config.toml", "pyproject.toml", "setup.cfg",
    "pytest.ini", "tox.ini", "package.json", "tsconfig.json", ".npmrc", "requirements.txt",
)  # fmt: skip
_PATH_TEXT = re.compile(r"(?<![\w/:.])(?:file:(?://)?)?(/[^\s\"'<>,;()\[\]{}=:]+)")


def is_about_code(name: str) -> bool:
    """Tell whether a variable says where code, packages or builds are found."""
    return name in _VARIABLES or name.upper().startswith(_PREFIXES)


def places(value: str) -> list[str]:
    """Return the absolute paths in the value of a variable."""
    return [word for word in re.split(r"[:\s=,]", value) if word.startswith("/")]


def in_calls(
    folder: Path, trees: Trees, calls: tuple[Call, ...], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Find what the command line itself says that would be used instead of the folder's."""
    for call in calls:
        for name, value in call.variables.items():
            if is_about_code(name):
                for place in _leading(value, folder, trees, environ):
                    yield Finding(
                        f"{name} of the command names {place}",
                        folder,
                        "name the place from the folder itself: paths in commands may be relative",
                    )
        for word in _named_folders(call):
            for place in _leading(word, folder, trees, environ):
                yield Finding(
                    f"the command {' '.join(call.words[:2])} works in {place}",
                    folder,
                    "leave that path out: commands start in the folder that is judged",
                )


def in_variables(folder: Path, trees: Trees, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Find what the environment says."""
    for name, value in environ.items():
        if is_about_code(name):
            wrong = [each for each in places(value) if trees.leads(each, apart=folder)]
            if wrong:
                yield Finding(f"{name} names {wrong[0]}", folder, f"take {name} out of pass_env")


def in_script(
    folder: Path, trees: Trees, script: Script, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Find what a script says that a command starts."""
    for each in in_calls(folder, trees, script.calls, environ):
        yield replace(each, where=script.file, committed=script.committed)
    if script.file.name == PACKAGE:
        yield from _in_text(script.file, script.text, folder, trees)


def in_manifests(folder: Path, trees: Trees) -> Iterator[Finding]:
    """Find full paths in committed settings of package managers and test programs."""
    for name in MANIFESTS:
        text = (read_small(folder / name) or b"").decode("utf-8", errors="replace")
        if name == PACKAGE:
            text = _without_scripts(text)
        yield from _in_text(folder / name, text, folder, trees)


def _in_text(file: Path, text: str, folder: Path, trees: Trees) -> Iterator[Finding]:
    for place in dict.fromkeys(_PATH_TEXT.findall(text)):
        # A text such as "/app" may be the address of a page: only what is there counts.
        if (
            os.path.realpath(place) not in trees.users
            and os.path.lexists(place)
            and trees.leads(place, apart=folder)
        ):
            yield Finding(
                f"{os.path.relpath(file, folder)} names {place}",
                file,
                "commit a path that begins at the file itself",
                committed=True,
            )


def _without_scripts(text: str) -> str:
    """Leave out what only a command that names it would start."""
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
