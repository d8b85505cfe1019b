"""Messages through Apprise: Slack, Telegram, ntfy, mail and a hundred others, by one URL.

The only importer of apprise, which is the extra `loopwright[notify]` and takes a quarter of a
second to import: both happen in a thread, when something is sent.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from ci.http.response import lasts
from orchestrator.extras import how_to_install
from orchestrator.notify.errors import ChannelError

MISSING = (
    "the extra that sends to Apprise URLs is not installed; install it with "
    f"{how_to_install('notify')}"
)
_ANSWERED = re.compile(r"\berror=(\d{3})\b")
"""How its services name the status of the answer that refused a message."""
UNREADABLE = "the URL is none that Apprise knows; see https://github.com/caronc/apprise/wiki"


def is_installed() -> bool:
    """Tell whether the extra is there, without importing it."""
    from importlib.util import find_spec  # noqa: PLC0415  # only `doctor` asks

    return find_spec("apprise") is not None


def check(url: str) -> None:
    """Raise ChannelError if nothing can be sent to a URL."""
    _prepared(url)


def send(url: str, title: str, body: str) -> None:
    """Send, in the thread that calls; ChannelError says why it was not taken."""
    apprise, way = _prepared(url)
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as captured:
        taken = way.notify(title=title, body=body, body_format="text")
        said = captured.getvalue().replace(url, "***").split("\n")
    if not taken:
        why = "; ".join(line.strip() for line in said if line.strip())
        answers = [int(status) for status in _ANSWERED.findall(why)]
        raise ChannelError(
            why[:500] or "it was not taken, and Apprise does not say why",
            refused=bool(answers) and all(map(lasts, answers)),
        )


def _prepared(url: str) -> tuple[Any, Any]:
    try:
        import apprise  # noqa: PLC0415  # an extra, and heavy
    except ImportError as problem:
        raise ChannelError(MISSING) from problem
    way = apprise.Apprise()
    if not way.add(url):
        raise ChannelError(UNREADABLE)
    return apprise, way
