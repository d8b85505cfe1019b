"""What is proposed for projects of Node."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.proposals.committed_files import SetupProposal, table

if TYPE_CHECKING:
    from orchestrator.proposals.committed_files import CommittedFiles

_NO_TEST = "no test specified"
"""What `npm init` writes."""


class _Manager(NamedTuple):
    program: str
    install: str
    run: str
    """Before the name of a script."""
    everywhere: str
    """Runs the tests of those packages of a workspace that have some; empty where none does."""


_NPM = _Manager("npm", "npm ci", "npm run", "npm test --workspaces --if-present")
_LOOSE = _NPM._replace(install="npm install --no-package-lock")
_BY_LOCK = (
    (
        "bun.lock",
        _Manager("bun", "bun install --frozen-lockfile", "bun run", "bun run --filter '*' test"),
    ),
    (
        "bun.lockb",
        _Manager("bun", "bun install --frozen-lockfile", "bun run", "bun run --filter '*' test"),
    ),
    (
        "pnpm-lock.yaml",
        _Manager("pnpm", "pnpm install --frozen-lockfile", "pnpm run", "pnpm -r test"),
    ),
    (
        "yarn.lock",
        _Manager("yarn", "yarn install --frozen-lockfile", "yarn run", ""),
    ),
    ("package-lock.json", _NPM),
    ("npm-shrinkwrap.json", _NPM),
)
_NEW_YARN = _Manager(
    "yarn", "yarn install --immutable", "yarn run", "yarn workspaces foreach -A run test"
)


def propose(found: CommittedFiles) -> SetupProposal | None:
    """Propose for the package manager whose lock file is there, else for npm."""
    if "package.json" not in found.names:
        return None
    package = found.json("package.json")
    manager = _manager(found, package)
    members = _members(found, package)
    needed = bool(members) or any(
        found.json(name).get(kind)
        for name in ("package.json", *members)
        for kind in ("dependencies", "devDependencies")
    )
    return SetupProposal(
        setup=[manager.install] if needed else [],
        verify=_verify(found, package, manager, members),
        needs=[manager.program],
        makes=["node_modules/"] if needed else [],
    )


def _manager(found: CommittedFiles, package: dict[str, Any]) -> _Manager:
    said = str(package.get("packageManager", ""))
    for lock, manager in _BY_LOCK:
        if lock in found.names:
            newer = said.startswith("yarn@") and not said.startswith("yarn@1")
            if manager.program == "yarn" and (newer or ".yarnrc.yml" in found.names):
                return _NEW_YARN
            return manager
    return _LOOSE


def _members(found: CommittedFiles, package: dict[str, Any]) -> list[str]:
    """Return the manifests of the packages of a workspace."""
    if not package.get("workspaces") and "pnpm-workspace.yaml" not in found.names:
        return []
    folders = found.folders_with("package.json")
    return [f"{folder}/package.json" for folder in folders if folder != "."]


def _verify(
    found: CommittedFiles, package: dict[str, Any], manager: _Manager, members: list[str]
) -> list[str]:
    commands = []
    if _script(package, "build") and any(_is_built(found.json(name)) for name in members):
        # Packages import each other as they were built, and what is built is not committed.
        commands.append(f"{manager.run} build")
    if _script(package, "test"):
        return [*commands, _test(manager)]
    tested = [package for name in members if _script(package := found.json(name), "test")]
    if tested and manager.everywhere:
        return [*commands, manager.everywhere]
    names = [name for each in tested if isinstance(name := each.get("name"), str)]
    return [*commands, *(f"{manager.program} workspace {quote(name)} test" for name in names)]


def _test(manager: _Manager) -> str:
    return f"{manager.run} test" if manager.program == "bun" else f"{manager.program} test"


def _script(package: dict[str, Any], name: str) -> str:
    script = table(package, "scripts").get(name)
    return script if isinstance(script, str) and _NO_TEST not in script else ""


def _is_built(package: dict[str, Any]) -> bool:
    entries = (package.get("main"), package.get("module"), package.get("exports"))
    return any("dist/" in str(entry) or "build/" in str(entry) for entry in entries)
