"""Two type checkers take long, and say the same each time: `make type` asks for them, once.

LOOPWRIGHT_TEST_TYPES=1 asks for it; without it these tests are not collected.
"""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("LOOPWRIGHT_TEST_TYPES") == "1" else ["test_*.py"]
