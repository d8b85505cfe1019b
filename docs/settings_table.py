# ruff: noqa: INP001  # a script beside the pages, no package
"""Writes the table in reference/settings.md from the code, so that both always agree."""

from __future__ import annotations

import json
from pathlib import Path

from lifecycle.settings import Settings
from orchestrator.config.field_docs import field_docs

PAGE = Path(__file__).parent / "reference" / "settings.md"
BEGIN = "<!-- settings: written by docs/settings_table.py -->\n"
END = "<!-- end of settings -->"


def table() -> str:
    """Return the table as Markdown."""
    docs = field_docs(Settings)
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    rows += [
        f"| `{name}` | {_shown(field.default)} | {docs[name]} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(rows) + "\n"


def written(page: str) -> str:
    """Return the page with its table as it should be."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


def _shown(value: object) -> str:
    if value in (None, (), ""):
        return "none"
    if isinstance(value, tuple):
        return f"`{json.dumps(value)}`"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
