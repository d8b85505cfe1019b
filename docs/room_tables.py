# ruff: noqa: INP001  # a script beside the pages, no package
"""Writes what each room holds into the READMEs, from the docstrings, so that both always agree."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
BEGIN = "<!-- rooms: written by docs/room_tables.py -->\n"
END = "<!-- end of rooms -->"


def pages() -> list[Path]:
    """Return the README of each package, and of each room that has one of its own."""
    return sorted(page for name in PACKAGES for page in (ROOT / name).rglob("README.md"))


def written(page: Path) -> str:
    """Return the README with its tables as they should be."""
    head, rest = page.read_text("utf-8").split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{''.join(_tables(page.parent, ''))}{END}{tail}"


def _tables(folder: Path, name: str) -> list[str]:
    inner = sorted(each.parent for each in folder.glob("*/__init__.py"))
    rows = [
        f"| `{each.name}` | {_said(each)} |\n"
        for each in sorted(folder.iterdir())
        if each.is_file() and each.suffix in {".py", ".j2"} and each.name != "__init__.py"
    ]
    rows += [
        f"| [`{each.name}/`]({name}{each.name}/README.md) | {_said(each / '__init__.py')} |\n"
        for each in inner
        if (each / "README.md").exists()
    ]
    title = [f"### `{name}`\n\n{_said(folder / '__init__.py')}.\n\n"] if name else []
    table = [*title, "| file | what it owns |\n|---|---|\n", *rows, "\n"] if rows else title
    for each in inner:
        if not (each / "README.md").exists():
            table += _tables(each, f"{name}{each.name}/")
    return table


def _said(module: Path) -> str:
    if module.suffix == ".j2":
        return f"the text of the {module.name.partition('.')[0]}"
    told = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return " ".join(told.split("\n\n")[0].split()).rstrip(".").replace("|", "\\|")


if __name__ == "__main__":
    for page in pages():
        page.write_text(written(page), "utf-8")
