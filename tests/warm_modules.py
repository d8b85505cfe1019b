"""All that a runner and its server import, loaded before any of them is forked off.

What loads late in the product is named here too; what is missing costs time and breaks nothing.
"""

from __future__ import annotations

import gc
from importlib import import_module

from tests.warm_templates import compile_templates

for _name in (
    "communication.watcher",
    "git",
    "lifecycle.loop",
    "lifecycle.store.sqlite.instance_listing",
    "lifecycle.store.sqlite.instances",
    "orchestrator.cli.commands.run",
    "orchestrator.cli.commands.serve",
    "orchestrator.cli.commands.up",
    "orchestrator.cli.error_boundary",
    "orchestrator.web.app",
    "orchestrator.web.server",
    "orchestrator.web.services",
    "pydantic.v1",
    "runtime.agents.adapters.claude",
    "runtime.agents.adapters.command",
    "templates.pages",
    "tests.warm",
    "uvicorn.protocols.http.httptools_impl",
):
    import_module(_name)
compile_templates()
gc.freeze()
