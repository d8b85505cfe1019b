"""What is proposed for modules of Go and packages of Rust."""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING

from orchestrator.proposals.committed_files import SetupProposal

if TYPE_CHECKING:
    from orchestrator.proposals.committed_files import CommittedFiles


def propose_go(found: CommittedFiles) -> SetupProposal | None:
    """Propose for each module: `./...` ends where the next module begins."""
    modules = found.folders_with("go.mod")
    if not modules:
        return None
    made = SetupProposal(needs=["go"])
    for folder in modules:
        at = "" if folder == "." else f"{folder}/"
        if (
            re.search(r"(?m)^\s*require\b", found.text(f"{at}go.mod"))
            and f"{at}go.sum" in found.names
        ):
            made.setup.append(_within(folder, "go mod download"))
        made.verify.append(_within(folder, "go test ./..."))
    if "go.work" not in found.names and (found.repo / "go.work").is_file():
        made.copy.append("go.work")
    return made


def propose_rust(found: CommittedFiles) -> SetupProposal | None:
    """Propose for a package or a workspace; else for each package."""
    packages = found.folders_with("Cargo.toml")
    if not packages:
        return None
    made = SetupProposal(needs=["cargo"], makes=["target/"])
    top = found.toml("Cargo.toml")
    for folder in ["."] if top else packages:
        at = "" if folder == "." else f"{folder}/"
        if "[[package]]" in found.text(f"{at}Cargo.lock") and "source = " in found.text(
            f"{at}Cargo.lock"
        ):
            made.setup.append(_within(folder, "cargo fetch --locked"))
        everything = " --workspace" if "workspace" in top and folder == "." else ""
        made.verify.append(_within(folder, f"cargo test --quiet{everything}"))
    return made


def _within(folder: str, command: str) -> str:
    return command if folder == "." else f"cd {quote(folder)} && {command}"
