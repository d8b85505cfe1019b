"""The plan "november": twelve tasks of a made-up repository, and what their agents do.

After a night every state is there at once. The tasks are those of the drawings of the pages.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.orchestrator.web.browser import programs as p

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.orchestrator.web.browser.programs import Step

GATE = "python3 -S -m unittest -q"
SETTINGS = """\
retry_interval = 0.1
breakpoint_check_interval = 0.1
stop_grace = 0.3
max_live_agents = 3
on_conflict = "ask"
plan_budget_usd = 50.0
budget_exempt = ["codex", "command"]
test_command = "test ! -e slow || sleep 600"
limit_interval = 3000.0
"""
QUOTES = '''\
"""What a parcel costs."""


def price(grams, zone):
    base = 4.90 if zone == "DE" else 13.80
    return round(base + grams * 0.002, 2)


def total(parcels):
    return round(sum(price(each, "DE") for each in parcels), 2)
'''
CLIENT = '''\
"""One client for all carriers."""


class CarrierDown(Exception):
    pass


class CarrierClient:
    def __init__(self, carrier, transport):
        self.carrier = carrier
        self.transport = transport
        self.calls = 0

    def quote(self, origin, target, grams):
        self.calls += 1
        answer = self.transport(origin, target, grams)
        if answer is None:
            raise CarrierDown(f"{self.carrier} did not answer")
        return answer
'''
TEST_CARRIERS = """\
import unittest

from parcel.client import CarrierClient, CarrierDown


class CarrierTest(unittest.TestCase):
    def test_the_price_is_read(self):
        client = CarrierClient("dhl", lambda *_: 4.90)
        self.assertEqual(client.quote("10115", "20095", 900), 4.90)

    def test_a_timeout_is_final(self):
        client = CarrierClient("dhl", lambda *_: None)
        with self.assertRaises(CarrierDown):
            client.quote("10115", "20095", 900)
        self.assertEqual(client.calls, 1)
"""
TEST_QUOTES = """\
import unittest

from parcel.quotes import price


class QuotesTest(unittest.TestCase):
    def test_a_parcel_in_germany(self):
        self.assertEqual(price(1000, "DE"), 6.9)
"""
FILES = {
    "README.md": "# parcel\n\nWhat a parcel costs, at all carriers.\n",
    "loopwright.toml": SETTINGS,
    "parcel/__init__.py": "",
    "parcel/quotes.py": QUOTES,
    "parcel/client.py": CLIENT,
    "tests/__init__.py": "",
    "tests/test_quotes.py": TEST_QUOTES,
    "tests/test_carriers.py": TEST_CARRIERS,
    "docs/carriers.md": "# Carriers\n\nA call that fails is final.\n",
    "docs/rates.md": "# Rates\n\nThe import is best effort.\n",
}
RETRYING = CLIENT.replace(
    """\
        self.calls += 1
        answer = self.transport(origin, target, grams)
        if answer is None:
            raise CarrierDown(f"{self.carrier} did not answer")
        return answer
""",
    """\
        for _ in range(4):
            self.calls += 1
            answer = self.transport(origin, target, grams)
            if answer is not None:
                return answer
        raise CarrierDown(f"{self.carrier} did not answer, {self.calls} times")
""",
)
WEAKER_TEST = TEST_CARRIERS.replace(
    "test_a_timeout_is_final", "test_a_timeout_is_tried_again"
).replace("        self.assertEqual(client.calls, 1)\n", "")
COUNTING_TEST = TEST_CARRIERS.replace(
    "test_a_timeout_is_final", "test_a_timeout_is_tried_again"
).replace("self.assertEqual(client.calls, 1)", "self.assertEqual(client.calls, 4)")

QUESTION = "When a row names an unknown carrier: should the whole import fail, or skip the row?"


def _claude(words: str, tokens: int, *steps: Step, end: str = "") -> list[Step]:
    """Return an attempt of claude: words, a look around, what it does, and its end."""
    return [
        p.claude_begins(),
        p.claude_says(words),
        p.claude_calls("Bash", command="git log --oneline -5"),
        p.claude_calls("Edit", file_path="parcel/quotes.py", old_string="x", new_string="y"),
        *steps[:-1],
        p.claude_ends(tokens, end or words),
        steps[-1],
    ]


def _codex(words: str, tokens: int, *steps: Step) -> list[Step]:
    return [
        *p.codex_begins(),
        p.codex_says(words),
        p.codex_runs("npm run typecheck", "> tsc --noEmit\nFound 0 errors."),
        *steps[:-1],
        p.codex_ends(tokens),
        steps[-1],
    ]


def _gives_up(attempt: int) -> list[Step]:
    return _claude(
        f"Attempt {attempt}: parse the leap day by hand.",
        350_000,
        *p.commits(
            f"Parse dates, try {attempt}",
            **{
                "parcel__dates.py": f"def leap(year):\n    return year % {attempt + 4} == 0\n",
                "tests__test_dates.py": (
                    "import unittest\n\nfrom parcel.dates import leap\n\n\n"
                    "class DatesTest(unittest.TestCase):\n"
                    "    def test_feb_29(self):\n        self.assertTrue(leap(2024))\n"
                    "        self.assertFalse(leap(1900))\n"
                ),
            },
        ),
        p.done("The dates are parsed without dateutil."),
    )


def _rounded(where: str) -> str:
    return QUOTES.replace("return round(base + grams * 0.002, 2)", where)


SCRIPTS: dict[str, Any] = {
    "T01": _claude(
        "Settings are read once, and checked.",
        470_000,
        *p.commits(
            "Move settings",
            **{
                "parcel__settings.py": "ZONES = ('DE', 'EU')\n",
                "parcel__quotes.py": _rounded("return round(base + 0.002 * grams, 2)"),
            },
        ),
        p.done("Settings are in one place now."),
    ),
    "T02": {
        "attempts": {
            "1": [p.claude_begins(), p.claude_says("I begin."), {"exit": 1}],
            "default": _claude(
                "All carriers go through one client. **The old ones** are gone.",
                1_060_000,
                *p.commits("One client", **{"parcel__http.py": "def get(url):\n    return url\n"}),
                p.done("One HTTP client for all carriers, with `parcel/http.py` under it."),
            ),
        }
    },
    "T03": {
        "attempts": {
            "1": _claude(
                "Calls are tried four times now.",
                1_660_000,
                *p.commits(
                    "Try again",
                    **{
                        "parcel__client.py": RETRYING,
                        "tests__test_carriers.py": WEAKER_TEST,
                        "docs__carriers.md": "# Carriers\n\nA failed call is tried again.\n",
                    },
                ),
                p.done(
                    "Retries with backoff. I had to adapt one test; see tests/test_carriers.py."
                ),
            ),
            "default": _claude(
                "The calls are counted again.",
                400_000,
                *p.commits("Count calls", **{"tests__test_carriers.py": COUNTING_TEST}),
                p.done("Both tests count the calls now."),
            ),
        }
    },
    "T04": _claude(
        "Money is rounded at the edge only.",
        580_000,
        *p.commits("Round once", **{"parcel__quotes.py": _rounded("return base + grams * 0.002")}),
        p.done("Rounding happens once, in `total`."),
    ),
    "T05": {
        "attempts": {
            "1": _claude(
                "The issue says strict import, docs/rates.md says best effort.",
                570_000,
                *p.commits(
                    "Read rows",
                    **{"parcel__rates.py": "def rows(text):\n    return text.splitlines()\n"},
                ),
                p.asks(QUESTION, "Both are easy; I do not want to guess."),
            ),
            "default": _claude(
                "Then rows of unknown carriers are skipped and reported.",
                300_000,
                *p.commits(
                    "Skip and report",
                    **{
                        "parcel__rates.py": (
                            "def rows(text):\n"
                            "    return [each for each in text.splitlines() if each]\n"
                        )
                    },
                ),
                p.done("The import skips what it does not know, and says so."),
            ),
        }
    },
    "T06": _claude(
        "I need the parsed row model of T05.",
        170_000,
        {"say": "parcel/rates.py is missing"},
        p.blocked("needs the parsed row model", "T05"),
    ),
    "T07": _codex(
        "The image is pinned.",
        720_000,
        *p.commits("Pin the image", Dockerfile="FROM python:3.12-slim@sha256:1\n", slow="yes\n"),
        {"breakpoint": {"type": "pr_created", "summary": "The image is 80 MB smaller."}},
    ),
    "T08": _claude(
        "Nothing needs Python 3.9 any more.",
        240_000,
        *p.commits("Drop 3.9", **{"setup.txt": "python_requires >= 3.10\n"}),
        {"breakpoint": {"type": "pr_created", "summary": "3.10 is the oldest now."}},
    ),
    "T09": p.codex_is_limited(),
    "T10": {"attempts": {str(n): _gives_up(n) for n in (1, 2, 3, 4)}},
    "T11": [
        p.claude_begins(),
        p.claude_says("Two errors are left. zone_code is zoneCode in the generated types."),
        p.claude_calls("Read", file_path="web/src/views/Quote.tsx"),
        p.claude_calls("Edit", file_path="web/src/api/client.ts", old_string="a", new_string="b"),
        p.claude_says("Typecheck is clean. Now the client tests before I push."),
        p.claude_calls("Bash", command="npm test -- --run client", tokens=16_200),
        {"hang": {}},
    ],
    "T12": [p.DONE],
    "zones": _claude(
        "Zones are looked up once.",
        370_000,
        *p.commits("Cache zones", **{"parcel__zones.py": "CACHE = {}\n"}),
        p.done("Lookups are cached per process."),
    ),
    "soap": _claude(
        "SOAP is gone.",
        490_000,
        *p.commits("Remove SOAP", **{"parcel__soap.py": "GONE = True\n"}),
        p.done("The SOAP client is removed."),
    ),
    "geocoder": _claude(
        "The other geocoder is faster.",
        210_000,
        *p.commits("Try it", **{"parcel__geo.py": "FAST = True\n"}),
        p.done("Another geocoder, twice as fast, with a licence of its own."),
    ),
    "report": _claude("Which week day?", 90_000, p.asks("On which day is the report sent?")),
}
TITLES = {
    "T01": "Move settings to pydantic-settings",
    "T02": "One HTTP client for all carriers",
    "T03": "Retry carrier calls with backoff",
    "T04": "Round money once, at the edge",
    "T05": "Import carrier rates from CSV",
    "T06": "Upload page for rate files",
    "T07": "Pin and shrink the Docker image",
    "T08": "Drop Python 3.9",
    "T09": "Move the rate cache to Redis",
    "T10": "Parse carrier dates without dateutil",
    "T11": "Generate the web client from OpenAPI",
    "T12": "Release notes and upgrade guide",
    "zones": "Cache zone lookups",
    "soap": "Remove the SOAP client",
    "geocoder": "Try another geocoder",
    "report": "Send a weekly report",
}
CODEX = ("T07", "T09")
UNJUDGED = ("T11", "T12")
MORE: dict[str, dict[str, Any]] = {
    "T03": {"dependencies": ["T02"], "acceptance": ["Calls are tried again", "The waits grow"]},
    "T10": {"max_retries": 2},
    "T12": {"dependencies": ["T05", "T08", "T11"]},
}
BY_HAND = ("zones", "soap", "geocoder", "report")
"""Added later, by these names of their agents; they stand in no plan."""


IN_THE_MORNING = {
    "T01": "accepted",
    "T02": "done",
    "T03": "done",
    "T04": "done",
    "T05": "needs you",
    "T06": "waiting",
    "T07": "waiting",
    "T08": "waiting",
    "T09": "waiting",
    "T10": "given up",
    "T11": "working",
    "T12": "queued",
    "zones": "done",
    "soap": "done",
    "geocoder": "rejected",
    "report": "paused",
}


def plan(chosen: Iterable[str] | None = None) -> str:
    """Return the text of the plan, or of some of its tasks."""
    wanted = set(TITLES if chosen is None else chosen)
    tasks = [
        {
            "id": task,
            "title": title,
            "description": f"{title}.\nKeep what users see as it is.",
            "agent": "codex" if task in CODEX else "claude",
            "verify": [] if task in UNJUDGED else [GATE],
            **MORE.get(task, {}),
        }
        for task, title in TITLES.items()
        if task in wanted and task not in BY_HAND
    ]
    agents = {"claude": {"adapter": "claude"}, "codex": {"adapter": "codex"}}
    return json.dumps({"name": "november", "agents": agents, "tasks": tasks}, indent=1)
