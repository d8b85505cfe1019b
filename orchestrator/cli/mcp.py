"""`loopwright mcp`: the tools by which an agent signals, for the agent's own program to start."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.cli.options import Parser

PARENT_LOOK_S = 0.5
_PACKAGES = ("mcp", "mcp_types", "anyio")


def parser(name: str) -> Parser:
    """Return the options."""
    from orchestrator.cli.options import Parser  # noqa: PLC0415  # every attempt pays for it

    return Parser(
        name,
        "Offer the tools report_breakpoint, ask_question, report_progress and get_context to an "
        "agent (Model Context Protocol over standard input and output). Agent programs start it.",
        example=f"loopwright {name}",
        more=(
            "Needs the LOOPWRIGHT_* variables that Loopwright sets for the agents it starts, and "
            "the extra: pip install 'loopwright[mcp]'. Ends with its standard input."
        ),
    )


def run(name: str, args: list[str]) -> int:
    """Serve until standard input ends."""
    if args:
        parser(name).parse_args(args)
    parent = os.getppid()
    from communication.mcp_lines import Lines  # noqa: PLC0415  # not for --help
    from communication.mcp_opening import Opening  # noqa: PLC0415  # as above
    from communication.mcp_tools import Toolbox  # noqa: PLC0415  # as above
    from orchestrator.version import version  # noqa: PLC0415  # as above

    toolbox = Toolbox(os.environ)
    _need_packages()
    _end_with(parent)
    # Interrupted it would wait for a line that may never come.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    lines, stdout = Lines(0), _claimed()
    os.set_blocking(0, True)
    os.set_blocking(stdout, True)
    said = Opening(lines, stdout, version()).run()
    if said is not None:
        _served()(toolbox, lines, stdout, version=version(), said=said)
    return 0


def _need_packages() -> None:
    """Say so at the start where the tools could not be called later; loads nothing."""
    from importlib.util import find_spec  # noqa: PLC0415  # not for --help

    if not all(map(find_spec, _PACKAGES)):
        from orchestrator.cli.options import UsageError  # noqa: PLC0415  # only for mistakes

        raise UsageError(
            "the tools need a package that is not installed; do: pip install 'loopwright[mcp]'"
        )


def _served() -> Callable[..., None]:
    import gc  # noqa: PLC0415  # not for --help

    # The package makes some hundred thousand objects that stay; looking through them over and
    # over while they are made would take as long again.
    gc.disable()
    from communication.mcp import serve  # noqa: PLC0415  # the heavy one

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
    import _thread  # noqa: PLC0415  # `threading` is loaded only with the package
    import time  # noqa: PLC0415  # not for --help

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_LOOK_S)
        os._exit(0)

    _thread.start_new_thread(watch, ())
