"""`loopwright mcp`: the tools of an agent to signal with; with --operator those of a person."""

from __future__ import annotations

import _thread  # `threading` is loaded only with the package
import gc
import os
import signal
import time
from importlib.util import find_spec

from communication.mcp.handshake import Opening
from communication.mcp.lines import LineReader
from communication.mcp.tools import Toolbox
from orchestrator.errors import OrchestratorError
from orchestrator.extras import how_to_install
from orchestrator.version import __version__

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from orchestrator.operator_tools.command_tools import OperatorTools
    from orchestrator.terminal.options import CommandLineParser

PARENT_LOOK_S = 0.5
_PACKAGES = ("mcp", "mcp_types", "anyio")


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    from orchestrator.cli.mcp_options import parser_of  # noqa: PLC0415  # every attempt pays for it

    return parser_of(name)


def run(name: str, args: list[str]) -> int:
    """Serve until standard input ends."""
    operator = _operator(parser(name).parse_args(args)) if args else None
    parent = os.getppid()
    toolbox = Toolbox(os.environ) if operator is None else None
    _need_packages()
    _end_with(parent)
    # Interrupted it would wait for a line that may never come.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    lines, stdout = LineReader(0), _claimed()
    os.set_blocking(0, True)
    os.set_blocking(stdout, True)
    # What agents ask first is answered at once: each attempt pays for it.
    said = Opening(lines, stdout, __version__).run() if operator is None else []
    if said is not None:
        _served()(operator or toolbox, lines, stdout, version=__version__, said=said)
    return 0


def _operator(options: Namespace) -> OperatorTools | None:
    """Return the tools of a person, if they are asked for."""
    made: OperatorTools | None = options.operator_of(options)
    return made


def _need_packages() -> None:
    """Refuse at the start where the package is missing; loads nothing."""
    if not all(map(find_spec, _PACKAGES)):
        raise OrchestratorError(
            "the tools need a package that is not installed; install it with "
            f"{how_to_install('mcp')}"
        )


def _served() -> Callable[..., None]:
    # The package makes some hundred thousand objects that stay; looking through them over and
    # over while they are made would take as long again.
    gc.disable()
    from communication.mcp.server import serve  # noqa: PLC0415  # the heavy one

    gc.freeze()
    gc.enable()
    return serve


def _claimed() -> int:
    """Return a descriptor of standard output that is ours alone; what else prints is diverted."""
    mine = os.dup(1)
    os.dup2(2, 1)
    return mine


def _end_with(parent: int) -> None:
    """End when the parent is gone, even if somebody else still holds our standard input open."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_LOOK_S)
        os._exit(0)

    _thread.start_new_thread(watch, ())
