# ruff: noqa: INP001  # a script beside the pages, no package
"""Builds the site from the pages of this folder; a link that leads nowhere ends the build.

    python docs/build_site.py [FOLDER]      # dist/site by default

The navigation is made from the folders, so a new page is in it without a list to edit. Nothing of
the site is fetched from elsewhere: it can be read, and searched, without a network or a server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PARTS: dict[str, dict[str, str]] = {
    "Tutorial": {"": "tutorial"},
    "How to": {"": "how-to"},
    "Reference": {"": "reference", "Agent programs": "agents", "Forges and CI": "providers"},
    "Why it is so": {"": "why", "Decisions": "adr"},
}
"""The parts of the site, in their order: the folders of each, by the title of their group."""
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
FROM_ELSEWHERE = re.compile(r"""<script src=["']?https://[^>]*></script>""")
"""A script of the theme that only helps old browsers."""
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
SETTINGS = """\
[project]
site_name = "Loopwright"
site_description = "Runs coding agents in supervised loops."
docs_dir = {docs}
site_dir = {site}
use_directory_urls = false
extra_css = ["site.css"]
nav = {nav}

[project.theme]
font = false
features = ["content.code.copy", "navigation.footer", "navigation.indexes", "navigation.tabs",
  "navigation.top", "search.highlight", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Light"

[project.plugins.offline]

[project.markdown_extensions]
attr_list = {{}}
tables = {{}}
toc.permalink = true
pymdownx.highlight.pygments_lang_class = true
pymdownx.superfences = {{}}
"""


def navigation(docs: Path) -> list[object]:
    """Return the tree of pages: a page is its path, a group its title and what is in it."""
    tree: list[object] = [{"Loopwright": "README.md"}]
    for part, groups in PARTS.items():
        inside: list[object] = []
        for title, folder in groups.items():
            pages = [str(page.relative_to(docs)) for page in ordered(docs / folder)]
            inside += [{title: pages}] if title else pages
        tree += [{part: inside}] if inside else []
    return tree


def ordered(folder: Path) -> list[Path]:
    """Return the pages of a folder: its overview first, decisions by number, others by title."""
    pages = folder.glob("*.md")
    return sorted(pages, key=lambda page: (page.name != "README.md", _rank(page)))


def _rank(page: Path) -> str:
    return page.name if page.name[:4].isdigit() else title_of(page).casefold()


def title_of(page: Path) -> str:
    """Return the heading of a page."""
    found = TITLE.search(page.read_text("utf-8"))
    if found is None:
        sys.exit(f"{page}: it has no heading; begin it with `# Its title`")
    return found[1].replace("`", "")


def lay_out(docs: Path, target: Path) -> None:
    """Copy the pages and pictures, and the source files that pages link to."""
    for path in docs.rglob("*"):
        if path.suffix in {".md", ".png", ".svg", ".css"}:
            copy = target / path.relative_to(docs)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                copy.write_text(_relinked(docs, path, target), "utf-8")
            else:
                shutil.copyfile(path, copy)
    if (docs / "adr").is_dir():
        rows = "".join(f"- [{title_of(page)}]({page.name})\n" for page in ordered(docs / "adr"))
        (target / "adr" / "README.md").write_text(f"# Decisions\n\n{rows}", "utf-8")


def _relinked(docs: Path, page: Path, target: Path) -> str:
    """Return a page whose links lead to pages of the site, and to copies of source files."""

    def led(link: re.Match[str]) -> str:
        head, to, tail = link.groups()
        wanted = Path(os.path.normpath(page.parent / to))
        if "://" in to or not wanted.exists():
            return link[0]
        if wanted.is_relative_to(docs):
            return f"{head}{to.rstrip('/')}/README.md{tail}" if wanted.is_dir() else link[0]
        if wanted.is_dir():
            return head.strip("[](")
        copy = target / "source" / f"{wanted.relative_to(docs.parent)}.txt"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wanted, copy)
        return f"{head}{os.path.relpath(copy, (target / page.relative_to(docs)).parent)})"

    return LINK.sub(led, page.read_text("utf-8"))


def build(site: Path, docs: Path = DOCS) -> None:
    """Build the whole site; what is wrong with a page goes to standard error and ends this."""
    with tempfile.TemporaryDirectory(prefix="loopwright-site-") as made:
        work = Path(made)
        (work / "pages").mkdir()
        lay_out(docs, work / "pages")
        nav = _toml(navigation(work / "pages"))
        settings = SETTINGS.format(docs='"pages"', site='"site"', nav=nav)
        (work / "zensical.toml").write_text(settings, "utf-8")
        built = subprocess.run(
            (sys.executable, "-m", "zensical", "build", "--strict", "--clean"),
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode != 0:
            said = COLOURS.sub("", built.stdout + built.stderr).partition("Traceback")[0]
            sys.exit(f"the site was not built:\n{said}")
        for page in (work / "site").rglob("*.html"):
            page.write_text(FROM_ELSEWHERE.sub("", page.read_text("utf-8")), "utf-8")
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(work / "site", site)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else DOCS.parent / "dist" / "site").absolute())
