"""Where errors become messages and exit codes. The one place that catches everything."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from orchestrator.terminal import exits

if TYPE_CHECKING:
    from collections.abc import Callable


RUNNERS = ("run", "up", "serve")
"""Commands that retry while the machine is short of resources."""
LOOPING = (*RUNNERS, "demo")
"""Commands that run loops: whoever takes their output late must not hold these up."""
FIRST, LONGEST = 1.0, 30.0
"""Seconds between retries; they double."""


def guarded(run: Callable[[str, list[str]], int], name: str, args: list[str]) -> int:
    """Run a command; an error is reported in one line that says what to do."""
    if name not in LOOPING:
        return _guarded(run, name, args)
    try:
        from orchestrator.terminal.background_output import background_output  # noqa: PLC0415  # others start without

        with background_output():
            return _guarded(run, name, args)
    except KeyboardInterrupt:  # before it began, or while the rest of the output was waited for
        return exits.INTERRUPTED


def _guarded(run: Callable[[str, list[str]], int], name: str, args: list[str]) -> int:
    try:
        code = _run_with_retries(run, name, args) if name in RUNNERS else run(name, args)
        sys.stdout.flush()
    except SystemExit as leaving:  # argparse leaves this way
        return leaving.code if isinstance(leaving.code, int) else exits.USAGE
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe; keep the interpreter from complaining when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.COMPLETE
    except Exception as error:  # noqa: BLE001  # the outermost boundary
        return _report(name, error)
    return code


def _run_with_retries(run: Callable[[str, list[str]], int], name: str, args: list[str]) -> int:
    """Run loops; retry while the machine lacks the resources to start them."""
    pause = FIRST
    while True:
        try:
            return run(name, args)
        except Exception as error:
            short = _shortage(error)
            if not short:
                raise
            sys.stderr.write(f"loopwright {name}: {short}; retrying in {pause:g} s\n")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST)


def _report(name: str, error: Exception) -> int:
    short = _shortage(error)
    if short:
        sys.stderr.write(f"loopwright {name}: {short}\n")
        return exits.USAGE
    known = _expected(error)
    if known is not None:
        text = _system_error(error) if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"loopwright {name}: {text}\n")
        return known
    shadow = _shadow(error)
    if shadow:
        sys.stderr.write(f"loopwright {name}: {shadow}\n")
        return exits.USAGE
    import traceback  # noqa: PLC0415  # only for defects

    if os.environ.get("LOOPWRIGHT_DEBUG"):
        traceback.print_exc()
    where = traceback.extract_tb(error.__traceback__)[-1]
    sys.stderr.write(
        f"loopwright {name}: internal error: {type(error).__name__}: {error} "
        f"({where.filename}:{where.lineno}). This is a defect of loopwright; run it again with "
        "LOOPWRIGHT_DEBUG=1 for details and report it.\n"
    )
    return exits.INTERNAL_ERROR


def _expected(error: Exception) -> int | None:
    """Return the exit code of an error that is meant for the user; None for a defect."""
    for module, names, code in (
        ("lifecycle.errors", ("RepositoryBusyError",), exits.BUSY),
        ("lifecycle.errors", ("LifecycleError",), exits.USAGE),
        ("runtime.errors", ("RuntimeFault",), exits.USAGE),
        ("communication.errors", ("CommunicationError",), exits.USAGE),
        ("ci.errors", ("CIError",), exits.USAGE),
        ("templates.errors", ("TemplateError",), exits.USAGE),
        ("orchestrator.errors", ("OrchestratorError",), exits.USAGE),
    ):
        # An error's class can only be known if its module was imported.
        loaded = sys.modules.get(module)
        kinds = tuple(getattr(loaded, name) for name in names) if loaded is not None else ()
        if isinstance(error, kinds):
            return code
    return exits.USAGE if isinstance(error, OSError) else None


def _shortage(error: Exception) -> str:
    """Say what the machine is short of, if that made the command fail."""
    try:
        from runtime.shortage import shortage_of  # noqa: PLC0415  # only for errors
    except OSError as worse:
        return f"this machine is short of something ({worse.strerror}): raise `ulimit -n`"
    return shortage_of(error)


def _system_error(error: OSError) -> str:
    """Say what the system refused, and where; our own errors are shown unchanged."""
    if not error.strerror or error.filename is None:
        return str(error)
    return (
        f"{os.fsdecode(error.filename)}: {error.strerror}; fix its permissions, or free space "
        "there (`loopwright doctor` checks the folders it needs)"
    )


def _shadow(error: Exception) -> str:
    """Name the foreign package that shadows one of ours, if that made an import fail."""
    if not isinstance(error, ImportError):
        return ""
    from orchestrator.runner.shadowing import ShadowedPackageError, check_own_packages  # noqa: PLC0415  # rare

    try:
        check_own_packages()
    except ShadowedPackageError as shadowed:
        return str(shadowed)
    return ""
