"""A small process that watches directories for a runner: the only one that loads watchfiles.

The native part of that library aborts its whole process if it gets no thread; here that only ends
one watch, which is replaced by polling and restarted. It ends when its standard input does, so it
never outlives its runner. It must not import other modules of ours: it has to start fast.

A request is a line of JSON, `[number, folders, names]`; other names are not reported. The output is
`["watching", number, seconds]` or `["failed", number, why]` for the latest request, and
`["changed", number, paths]`.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from typing import Any

IN, OUT = 0, 1
MODULE = "_rust_notify"
_AT_ONCE = 1 << 16
_STEP_MS = 10
"""Changes are collected until none comes for this long."""
_MOST_MS = 50
"""Maximum time to collect changes after the first one."""


class WatchRequests:
    """The requests of the runner; the library polls it to see whether to stop."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._poll.register(IN, select.POLLIN)
        self._left = b""

    def is_set(self) -> bool:
        """Tell whether there is a new request."""
        return bool(self._poll.poll(0))

    def take(self) -> tuple[int, list[str], list[str]] | None:
        """Wait for a request; the latest one counts. None if the runner is gone."""
        while True:
            piece = os.read(IN, _AT_ONCE)
            if not piece:
                return None
            *whole, self._left = (self._left + piece).split(b"\n")
            if whole and not self.is_set():
                number, folders, names = json.loads(whole[-1])
                return number, folders, names


def main(library: str) -> None:
    """Watch what is requested until the input ends."""
    loader = ExtensionFileLoader(MODULE, library)
    spec = spec_from_file_location(MODULE, library, loader=loader)
    if spec is None:
        return
    module = module_from_spec(spec)
    loader.exec_module(module)
    orders, notifier = WatchRequests(), None
    while (order := orders.take()) is not None:
        number, folders, names = order
        started = time.monotonic()
        # The new watch is up before the old one goes.
        fresh = _open(module, number, folders)
        if notifier is not None:
            notifier.close()
        notifier = fresh
        if notifier is not None:
            _say("watching", number, time.monotonic() - started)
            wanted = frozenset(names), frozenset(folders)
            _pass_on(notifier, orders, number, wanted)


def _open(module: Any, number: int, folders: list[str]) -> Any:
    try:
        # In this order: debug, force_polling, poll_delay_ms, recursive, ignore_permission_denied.
        # An inaccessible folder does not affect the others.
        return module.RustNotify(folders, False, False, 0, False, True)  # noqa: FBT003  # as above
    except (OSError, RuntimeError) as error:
        _say("failed", number, str(error))
        return None


def _pass_on(
    notifier: Any,
    orders: WatchRequests,
    number: int,
    wanted: tuple[frozenset[str], frozenset[str]],
) -> None:
    """Report changes until there is a new request, or watching fails."""
    names, folders = wanted
    while True:
        try:
            found = notifier.watch(_MOST_MS, _STEP_MS, 0, orders)
        except (OSError, RuntimeError) as error:
            _say("failed", number, str(error))
            return
        if not isinstance(found, set):
            return
        # An agent's folder is busy; only what concerns the runner may wake it.
        ours = [path for _, path in found if path in folders or os.path.basename(path) in names]  # noqa: PTH119  # as text
        if ours:
            _say("changed", number, ours)


def _say(*words: object) -> None:
    data = json.dumps(words).encode() + b"\n"
    while data:
        data = data[os.write(OUT, data) :]


if __name__ == "__main__":
    main(sys.argv[1])
