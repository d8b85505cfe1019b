"""What a workflow may import, as a hash of each module without comments and docstrings.

    python -m tests.orchestrator.engines.temporal.surface DECISION

notes what becomes of workflows that are under way where one of these modules was changed:

- `replays`: orders, timers and their sequence are the same as before; nothing is to be done,
- `patched`: another way is taken only where `workflow.patched` says so,
- `drain`: workers are to be drained before the upgrade; the changelog says it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import sys
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import grimp

PACKAGES = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
WORKFLOW = "orchestrator.engines.temporal.workflow"
ROOT = Path(__file__).resolve().parents[4]
RECORDED = Path(__file__).with_name("histories") / "surface.json"
DECISIONS = ("replays", "patched", "drain")
DIGITS = 12


@cache
def imported() -> frozenset[str]:
    """Return the modules of ours that the workflow imports, itself included."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    return frozenset((WORKFLOW, *graph.find_upstream_modules(WORKFLOW)))


def surface() -> dict[str, str]:
    """Return the hash of each module that a workflow may import."""
    return {name: hash_of(_file_of(name).read_text("utf-8")) for name in sorted(imported())}


def hash_of(source: str) -> str:
    """Return the hash of what a module does."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            if isinstance(node.value.value, str):
                lines[first:last] = [""] * (last - first)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column]
    told = "\n".join(each.rstrip() for each in lines if each.strip())
    return hashlib.sha256(told.encode()).hexdigest()[:DIGITS]


def recorded() -> dict[str, Any]:
    """Return the surface that was decided on, and the decision."""
    told: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))
    return told


def record(decision: str) -> None:
    """Note what was decided about the surface as it is now."""
    if decision not in DECISIONS:
        raise SystemExit(f"{decision!r} is no decision; there are {', '.join(DECISIONS)}")
    told = {"decision": decision, "modules": surface()}
    RECORDED.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def _file_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


if __name__ == "__main__":
    record(*sys.argv[1:])
