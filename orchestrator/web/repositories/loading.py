"""Loads the server of several repositories beside the loops: it takes half a second of imports.

Must not import it before it is asked for.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any


async def server_module() -> Any:
    """Return the module `orchestrator.web.repositories.server`."""
    return await asyncio.to_thread(import_module, "orchestrator.web.repositories.server")
