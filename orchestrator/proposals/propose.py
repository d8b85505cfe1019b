"""Joins what is proposed for each language of a repository."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from orchestrator.proposals import go_and_rust, node, python
from orchestrator.proposals.committed_files import CommittedFiles, SetupProposal
from runtime.git.git import Git

if TYPE_CHECKING:
    from pathlib import Path

_LANGUAGES = (python.propose, node.propose, go_and_rust.propose_go, go_and_rust.propose_rust)
_SECRETS = (".env", ".env.local", ".env.test", ".envrc")
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
NOTHING = (
    'no tests were found, so nothing judges the work: write verify = ["COMMAND"] into '
    "loopwright.toml, commands that exit with 0 on success"
)


def propose(repo: Path) -> SetupProposal:
    """Propose what a fresh checkout needs and what judges it, with what is on this machine."""
    found = CommittedFiles.in_index(repo)
    made = SetupProposal()
    for language in _LANGUAGES:
        proposed = language(found)
        if proposed is None:
            continue
        missing = [each for each in proposed.needs if shutil.which(each) is None]
        if missing:
            made.notes.append(_without(missing, proposed))
            continue
        made.setup += proposed.setup
        made.copy += proposed.copy
        made.verify += proposed.verify
        made.makes += [rule for rule in proposed.makes if not _is_ignored(repo, rule)]
    makefile = found.has(*_MAKEFILES)
    if re.search(r"(?m)^test\s*:", found.text(makefile)) and shutil.which("make"):
        made.verify = ["make test"]
    if not made.verify:
        made.notes.append(NOTHING)
    private = [name for name in _SECRETS if name not in found.names and (repo / name).is_file()]
    if private:
        made.notes.append(
            f"{', '.join(private)} is not in fresh checkouts; where tests need it, add it to "
            "`copy`, but then agents can read it"
        )
    return made


def _is_ignored(repo: Path, rule: str) -> bool:
    """Tell whether git ignores such files already."""
    example = rule.replace("*", "x") + "x"
    return Git().run_blocking("check-ignore", "-q", example, cwd=repo, check=False).code == 0


def _without(missing: list[str], proposed: SetupProposal) -> str:
    lines = [f"setup = {_listed(proposed.setup)}"] if proposed.setup else []
    lines += [f"verify = {_listed(proposed.verify)}"] if proposed.verify else []
    return (
        f"{', '.join(missing)} is not on PATH, so nothing is proposed for it; with it: "
        f"{'; '.join(lines) or 'nothing'}"
    )


def _listed(commands: list[str]) -> str:
    inner = ", ".join('"' + each.replace('"', '\\"') + '"' for each in commands)
    return f"[{inner}]"
