"""The scripted agent, which writes it down when it is not the only one alive.

Each holds a lock as long as it lives; the kernel takes it back with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import sys

from runtime.agents import scripted

lock = os.open(os.environ["LONE_LOCK"], os.O_RDWR | os.O_CREAT, 0o600)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    with open(os.environ["LONE_LOCK"] + ".violations", "a", encoding="ascii") as violations:  # noqa: PTH123  # starts fast
        violations.write(os.environ["LOOPWRIGHT_SPAWN_ID"] + "\n")
sys.exit(scripted.main())
