"""An agent that plays a script: what real agents do, with all their faults.

`loopwright-agent SCRIPT` reads a JSON script and performs its steps for the present attempt. It
must start fast and use the standard library only; rarely needed modules are imported where they
are used.
"""

from __future__ import annotations

import json
import os
import sys

from runtime.agents.script import steps

_USAGE = 64
_INPUT_OUTPUT = 74

HELP = """\
usage: loopwright-agent SCRIPT       (or LOOPWRIGHT_AGENT_SCRIPT=SCRIPT loopwright-agent)

Plays an agent, and the faults of agents, by a JSON script:

  {"attempts": {"1": [STEP, ...], "2": [STEP, ...], "default": [STEP, ...]}}
  [STEP, ...]                         the same steps in every attempt

The attempt is LOOPWRIGHT_ATTEMPT (1 when unset). A step is an object with one verb:

  {"say": "hello"}                    the first option of the verb, or
  {"write": {"path": "a.txt", "text": "x"}}

Verbs, with their options (those in brackets may be left out):
"""
_EXIT_CODES = """
Exit codes: 0 after the last step, what `exit` and `run` say, 64 for a bad script, 74 when a step
met an error of the system.

Example:
  echo '[{"breakpoint": "task_complete"}]' > done.json && loopwright-agent done.json
"""
_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "float": (int, float),
    "int": int,
    "bool": bool,
    "list": list,
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "list | str | None": (list, str, type(None)),
}


def main(argv: list[str] | None = None) -> int:
    """Play the script named on the command line or in LOOPWRIGHT_AGENT_SCRIPT."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in ("-h", "--help"):
        print(help_text())  # noqa: T201  # what was asked for
        return 0
    named = arguments or [os.environ.get("LOOPWRIGHT_AGENT_SCRIPT", "")]
    if len(named) != 1 or not named[0]:
        return _fail(_USAGE, "name one script; `loopwright-agent --help` shows its form.")
    try:
        play(load(named[0], os.environ.get("LOOPWRIGHT_ATTEMPT") or "1"))
    except steps.ScriptError as error:
        return _fail(_USAGE, str(error))
    except steps.Leave as leave:
        return leave.code
    except OSError as error:
        return _fail(_INPUT_OUTPUT, str(error))
    return 0


def help_text() -> str:
    """Describe the form of a script and all its verbs."""
    lines = [HELP]
    for verb, play_step in steps.VERBS.items():
        options = _options(play_step)
        needed = _needed(play_step)
        shown = " ".join(name if name in needed else f"[{name}]" for name in options)
        lines.append(f"  {verb:<12} {shown}\n               {play_step.__doc__}\n")
    return "".join([*lines, _EXIT_CODES])


def load(path: str, attempt: str) -> list[tuple[str, steps.Step, dict[str, object]]]:
    """Read a script, check all of it, and return the steps of one attempt."""
    try:
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123  # pathlib costs start-up time
            script = json.load(stream)
    except (OSError, ValueError, RecursionError) as error:
        raise steps.ScriptError(f"{path} cannot be read as a script: {error}") from error
    if isinstance(script, list):
        return _checked(path, script)
    if not isinstance(script, dict) or not isinstance(script.get("attempts"), dict):
        raise steps.ScriptError(f'{path} is neither a list of steps nor {{"attempts": {{...}}}}.')
    attempts = {
        name: _checked(f"{path}, attempt {name}", listed)
        for name, listed in script["attempts"].items()
    }
    chosen = attempts.get(attempt, attempts.get("default"))
    if chosen is None:
        raise steps.ScriptError(f'{path} has no steps for attempt {attempt} and no "default".')
    return chosen


def play(listed: list[tuple[str, steps.Step, dict[str, object]]]) -> None:
    """Perform the steps in order; an error names its step."""
    for where, play_step, options in listed:
        try:
            play_step(**options)
        except steps.ScriptError as error:
            raise steps.ScriptError(f"{where}: {error}") from error
        except OSError as error:
            raise OSError(f"{where}: {error}") from error


def _checked(where: str, listed: object) -> list[tuple[str, steps.Step, dict[str, object]]]:
    if not isinstance(listed, list):
        raise steps.ScriptError(f"{where}: the steps must be a list.")
    return [_step(f"{where}, step {number}", step) for number, step in enumerate(listed, 1)]


def _step(where: str, step: object) -> tuple[str, steps.Step, dict[str, object]]:
    if not isinstance(step, dict) or len(step) != 1:
        raise steps.ScriptError(f"{where}: a step is an object with one verb, not {step!r:.80}.")
    [(verb, given)] = step.items()
    if verb not in steps.VERBS:
        known = ", ".join(steps.VERBS)
        raise steps.ScriptError(f"{where}: there is no verb {verb!r}. There are: {known}.")
    play_step = steps.VERBS[verb]
    where = f"{where} ({verb})"
    names = _options(play_step)
    options = given if isinstance(given, dict) else {names[0]: given} if names else {}
    for name, value in options.items():
        if name not in names:
            raise steps.ScriptError(f"{where}: no option {name!r}; it has: {', '.join(names)}.")
        kind = play_step.__annotations__[name]
        if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
            raise steps.ScriptError(f"{where}: {name} must be {kind}, not {value!r:.80}.")
    if missing := [name for name in _needed(play_step) if name not in options]:
        raise steps.ScriptError(f"{where}: {', '.join(missing)} is missing.")
    return where, play_step, options


def _options(play_step: steps.Step) -> tuple[str, ...]:
    code = play_step.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _needed(play_step: steps.Step) -> tuple[str, ...]:
    code = play_step.__code__
    without_default = code.co_argcount - len(play_step.__defaults__ or ())
    return code.co_varnames[:without_default]


def _fail(code: int, message: str) -> int:
    sys.stderr.write(f"loopwright-agent: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
