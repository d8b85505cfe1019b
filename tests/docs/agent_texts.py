"""The pages of the agents, and what is in them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from runtime.agents.catalogue import BUILT_IN

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "agents"
PAGES = runpy.run_path(str(ROOT / "docs" / "agent_pages.py"))
TEXTS = {
    path.stem: path.read_text("utf-8") for path in (PAGES["page_of"](name) for name in BUILT_IN)
} | {"README": PAGES["OVERVIEW"].read_text("utf-8")}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"`([^`\n]+)`")

each_adapter = pytest.mark.parametrize("name", BUILT_IN)
each_page = pytest.mark.parametrize("page", sorted(TEXTS))


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(TEXTS[page]) if kind == language]


def quoted(page: str) -> list[str]:
    """Return what stands in code quotes outside blocks and outside the facts."""
    written = PAGES["written"](TEXTS[page], "")
    return QUOTED.findall(BLOCK.sub("", written))
