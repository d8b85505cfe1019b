"""The tutorial runs as it stands, with a program that plays Claude Code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_runner import run_page
from tests.docs.stand_in import asks, found_as_claude, works

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "your-first-night.md"
SHOP = '"""Prices of a small shop, in cents."""\n\n\ndef total(prices):\n    return sum(prices)\n'
DISCOUNT = "\n\ndef discount(price, percent):\n    return price - price * percent // 100\n"
WRONG = DISCOUNT.replace("price - ", "")
TAX = "\n\ndef with_tax(price, percent):\n    return price + price * percent // 100\n"
ROUNDED = "def rounded(price):\n    return (price + 2) // 5 * 5\n"
RECEIPT = """\
import shop


def receipt(prices, percent):
    return "\\n".join(f"{price}: {shop.discount(price, percent)}" for price in prices)
"""


def checks_of(module: str, call: str, expected: object) -> str:
    return (
        f"import unittest\n\nimport {module}\n\n\nclass Works(unittest.TestCase):\n"
        f"    def test_it(self):\n        self.assertEqual({call}, {expected!r})\n"
    )


OF_DISCOUNT = {"tests/test_discount.py": checks_of("shop", "shop.discount(200, 10)", 180)}
OF_TAX = {"tests/test_tax.py": checks_of("shop", "shop.with_tax(200, 10)", 220)}
OF_ROUNDING = {"tests/test_rounding.py": checks_of("rounding", "rounding.rounded(3)", 5)}
OF_RECEIPT = {
    "tests/test_receipt.py": checks_of("receipt", "receipt.receipt([200], 10)", "200: 180")
}
STORIES = {
    "discount": {
        "1": works({"shop.py": SHOP + WRONG, **OF_DISCOUNT}, "Add discount"),
        "2": works({"shop.py": SHOP + DISCOUNT}, "Take the discount off the price"),
    },
    "tax": {
        "1": works({"shop.py": SHOP + TAX, **OF_TAX}, "Add with_tax"),
        "2": works({"shop.py": SHOP + DISCOUNT + TAX}, "Keep both functions"),
    },
    "rounding": {
        "1": asks("Is 2 cents rounded to 0 or to 5?"),
        "2": works({"rounding.py": ROUNDED, **OF_ROUNDING}, "Round half up"),
    },
    "receipt": {"1": works({"receipt.py": RECEIPT, **OF_RECEIPT}, "Print a receipt")},
    "readme": {"1": works({"README.md": "# A shop\n"}, "Say what the shop can do")},
}


@pytest.mark.timeout(240)
def test_the_tutorial_runs_as_it_stands(tmp_path: Path) -> None:
    env = found_as_claude(tmp_path, STORIES)
    printed = run_page(PAGE, folder=tmp_path, env=env, timeout=220)
    merged = printed.rpartition("::begun")[2]
    assert [task for task in STORIES if task not in merged] == []
    assert "OK" in merged
    assert "$0.12" in merged
    assert (tmp_path / "shop" / "shop.py").read_text() == SHOP + DISCOUNT + TAX
