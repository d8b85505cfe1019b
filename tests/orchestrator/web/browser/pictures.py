"""Takes the pictures of the pages that the docs show: `make pictures`.

python -m tests.orchestrator.web.browser.pictures [--to FOLDER] [--only NAME]...
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from tests.orchestrator.web.browser.chromium import chromium, watched
from tests.orchestrator.web.browser.scene import Scene, november_night
from tests.orchestrator.web.browser.visit import visit

if TYPE_CHECKING:
    from playwright.async_api import Browser

PRODUCT = Path(__file__).resolve().parents[4]
FOLDER = PRODUCT / "docs" / "images"
PHONE = 390


LATER = ".merging > p > a, #doctor > pre"
"""What stands on a page until what comes later is there."""
AT_HOME = """(places) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const here = texts.currentNode;
    for (const [place, known] of places)
      if (here.data.includes(place)) here.data = here.data.replaceAll(place, known);
  }
}"""
"""Shows what lies in scratch folders at places that a reader knows."""


class Picture(NamedTuple):
    """One picture: of which page, and how."""

    name: str
    path: str
    scheme: Literal["light", "dark"] = "light"
    width: int = 1440
    height: int = 900
    empty: bool = False
    """Of a repository in which nothing was done yet."""
    signed_in: bool = True


PICTURES = (
    Picture("board", "/"),
    Picture("board-dark", "/", "dark"),
    Picture("board-phone", "/", width=PHONE, height=844),
    Picture("task", "/t/T11"),
    Picture("task-dark", "/t/T03", "dark"),
    Picture("task-phone", "/t/T03", width=PHONE, height=844),
    Picture("review", "/review/T03"),
    Picture("review-dark", "/review/T03?view=split", "dark"),
    Picture("review-phone", "/review/T03", width=PHONE, height=844),
    Picture("conflict", "/review/T04"),
    Picture("summary", "/t/T10/summaries/3"),
    Picture("plan", "/plans/november"),
    Picture("log", "/t/T10/attempts/2"),
    Picture("hooks", "/hooks/2"),
    Picture("history", "/history?q=carrier"),
    Picture("costs", "/costs"),
    Picture("settings", "/settings"),
    Picture("add-a-task", "/new"),
    Picture("sign-in", "/login", height=620, signed_in=False),
    Picture("empty", "/", height=620, empty=True),
)


async def take(browser: Browser, scene: Scene, picture: Picture, folder: Path) -> Path:
    """Take one picture; a page that is not in order is an error."""
    target = folder / f"{picture.name}.png"
    window = visit(browser, scene) if picture.signed_in else watched(browser, scene.url)
    async with window as found:
        await found.size(picture.width, picture.height)
        await found.page.emulate_media(color_scheme=picture.scheme, reduced_motion="reduce")
        await found.goto(picture.path)
        await found.page.evaluate("document.fonts.ready")
        await found.page.locator(LATER).first.wait_for(state="detached")
        await found.page.evaluate(AT_HOME, _places(scene))
        await found.page.screenshot(path=target, animations="disabled")
    return target


def _places(scene: Scene) -> list[tuple[str, str]]:
    folder = scene.folder
    return [
        (str(folder / "home"), "/home/ada"),
        (str(folder), "/home/ada"),
        (str(Path(sys.executable).parent), "/opt/loopwright/bin"),
        (str(PRODUCT), "/opt/loopwright"),
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=FOLDER, help="where they are written")
    names = [picture.name for picture in PICTURES]
    parser.add_argument("--only", action="append", choices=names, help="only this one")
    return parser.parse_args()


async def _all(scenes: dict[bool, Scene], home: Path, folder: Path, wanted: list[Picture]) -> None:
    async with chromium(home) as browser:
        for picture in wanted:
            made = await take(browser, scenes[picture.empty], picture, folder)
            sys.stdout.write(f"{made} ({made.stat().st_size / 1024:.0f} KiB)\n")


def _made(scratch: Path, name: str) -> Path:
    (scratch / name).mkdir()
    return scratch / name


def _nothing(folder: Path) -> Scene:
    scene = Scene(folder)
    scene.begin("serve")
    return scene


def main() -> None:
    """Take those that are asked for."""
    options = _options()
    wanted = [each for each in PICTURES if not options.only or each.name in options.only]
    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        scratch = Path(name)
        scenes = {
            empty: stack.enter_context(
                (_nothing if empty else november_night)(
                    _made(scratch, "empty" if empty else "night")
                )
            )
            for empty in {picture.empty for picture in wanted}
        }
        asyncio.run(_all(scenes, _made(scratch, "browser"), options.to, wanted))


if __name__ == "__main__":
    main()
