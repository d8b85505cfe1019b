"""Exit codes; people script against them."""

from __future__ import annotations

COMPLETE = 0
INTERNAL_ERROR = 1
USAGE = 2
BLOCKED = 3
WAITING_OUTSIDE = 4
LIMIT_REACHED = 5
FAILED = 6
BUSY = 75
INTERRUPTED = 130
TERMINATED = 143
