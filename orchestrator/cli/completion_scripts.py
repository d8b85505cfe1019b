"""Completion scripts for shells, made from the command table and each command's own options.

The scripts are static: a shell asks us only for agent ids. Must not know any option by name, save
those whose values are files or folders.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.cli.main import COMMANDS, GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from orchestrator.terminal.options import CommandLineParser

FOLDERS = ("--repo",)
FILES = ("--file", "--output", "-o", "--stdout", "--stderr", "--token-file")
_FISH_QUOTE = "\\'"
AGENT_IDS = "loopwright ps --all --ids --limit 1000"
_SUB_WORDS = {"summary": ("edit", "approve"), "help": tuple(COMMANDS)}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command."""

    names: tuple[str, ...]
    text: str
    takes_value: bool
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """What can be typed after a command."""

    name: str
    text: str
    options: tuple[Option, ...]
    words: tuple[str, ...]
    """Words that may stand without a dash."""
    takes_agent: bool


def script(shell: str) -> str:
    """Return the script for a shell."""
    return SHELLS[shell](list(_commands()))


def _commands() -> Iterator[Command]:
    for _, group in GROUPS:
        for name, module, text in group:
            made: CommandLineParser = importlib.import_module(
                f"orchestrator.cli.commands.{module}"
            ).parser(name)
            yield _command(name, text, made)


def _command(name: str, text: str, made: CommandLineParser) -> Command:
    options, words, takes_agent = [], list(_SUB_WORDS.get(name, ())), False
    for action in made._actions:  # noqa: SLF001  # argparse has no other way to ask
        choices = tuple(str(choice) for choice in action.choices or ())
        if action.option_strings:
            takes_value = action.nargs != 0
            names = tuple(action.option_strings)
            options.append(Option(names, action.help or "", takes_value, choices))
        else:
            words += choices
            takes_agent |= action.dest in ("agent", "agents")
    return Command(name, text, tuple(options), tuple(words), takes_agent)


# --- bash -------------------------------------------------------------------------------------


def _bash(commands: list[Command]) -> str:
    cases = "\n".join(_bash_case(command) for command in commands)
    names = " ".join([*COMMANDS, "help", "--help", "--version"])
    return f"""\
# bash completion of loopwright. Use it with:  eval "$(loopwright completion bash)"
_loopwright() {{
    local cur prev command words="" values="" agents="" repo="" at
    cur=${{COMP_WORDS[COMP_CWORD]}}
    prev=${{COMP_WORDS[COMP_CWORD-1]}}
    command=${{COMP_WORDS[1]}}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=( $(compgen -W "{names}" -- "$cur") )
        return
    fi
    case "$prev" in
        {"|".join(FOLDERS)}) COMPREPLY=( $(compgen -d -- "$cur") ); return ;;
        {"|".join(FILES)}) COMPREPLY=( $(compgen -f -- "$cur") ); return ;;
    esac
    case "$command" in
{cases}
        help) words="{" ".join(COMMANDS)}" ;;
    esac
    if [ -n "$values" ]; then
        [ "$values" = "-" ] || COMPREPLY=( $(compgen -W "$values" -- "$cur") )
        return
    fi
    if [ -n "$agents" ] && [ "${{cur#-}}" = "$cur" ]; then
        for (( at = 2; at < COMP_CWORD; at++ )); do
            [ "${{COMP_WORDS[at]}}" = "--repo" ] && repo=${{COMP_WORDS[at+1]}}
        done
        words="$words $({AGENT_IDS} ${{repo:+--repo "$repo"}} 2>/dev/null)"
    fi
    COMPREPLY=( $(compgen -W "$words" -- "$cur") )
}}
complete -o default -F _loopwright loopwright
"""


def _bash_case(command: Command) -> str:
    names = [name for option in command.options for name in option.names]
    lines = [f"        {command.name})"]
    lines.append(f'            words="{" ".join([*command.words, *names])}"')
    if command.takes_agent:
        lines.append("            agents=1")
    valued = [option for option in command.options if option.takes_value]
    if valued:
        lines.append('            case "$prev" in')
        for option in valued:
            values = " ".join(option.choices) or "-"
            lines.append(f'                {"|".join(option.names)}) values="{values}" ;;')
        lines.append("            esac")
    lines.append("            ;;")
    return "\n".join(lines)


# --- zsh --------------------------------------------------------------------------------------


def _zsh(commands: list[Command]) -> str:
    names = "\n".join(f"        {_quoted(f'{each.name}:{each.text}')}" for each in commands)
    cases = "\n".join(_zsh_case(command) for command in commands)
    return f"""\
#compdef loopwright
# zsh completion of loopwright. Use it with:  eval "$(loopwright completion zsh)"
_loopwright_agents() {{
    local -a ids
    ids=( ${{(f)"$({AGENT_IDS} 2>/dev/null)"}} )
    compadd -a ids
}}
_loopwright() {{
    local -a commands
    commands=(
{names}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}
    esac
}}
compdef _loopwright loopwright
"""


def _zsh_case(command: Command) -> str:
    specs = [_zsh_option(option) for option in command.options]
    if command.words or command.takes_agent:
        words = f"compadd {' '.join(command.words)}; " if command.words else ""
        agents = "_loopwright_agents" if command.takes_agent else ""
        specs.append(_quoted(f"*:argument:{{{words}{agents}}}"))
    listed = " \\\n                ".join(specs)
    return f"        {command.name})\n            _arguments \\\n                {listed} ;;"


def _zsh_option(option: Option) -> str:
    text = option.text.replace("[", "(").replace("]", ")").replace(":", ";")
    value = ""
    if option.takes_value:
        name = option.names[-1]
        what = f"({' '.join(option.choices)})" if option.choices else ""
        what = "_files -/" if name in FOLDERS else "_files" if name in FILES else what
        value = f":value:{what}"
    return " ".join(_quoted(f"*{name}[{text}]{value}") for name in option.names)


# --- fish -------------------------------------------------------------------------------------


def _fish(commands: list[Command]) -> str:
    lines = [
        "# fish completion of loopwright. Use it with:  loopwright completion fish | source",
        "complete -c loopwright -f",
    ]
    for command in commands:
        here = f"__fish_seen_subcommand_from {command.name}"
        lines.append(
            f"complete -c loopwright -n __fish_use_subcommand -a {command.name} "
            f"-d {_quoted(command.text, _FISH_QUOTE)}"
        )
        if command.takes_agent:
            lines.append(f"complete -c loopwright -n '{here}' -a '({AGENT_IDS} 2>/dev/null)'")
        if command.words:
            lines.append(f"complete -c loopwright -n '{here}' -a '{' '.join(command.words)}'")
        lines += [_fish_option(here, option) for option in command.options]
    return "\n".join(lines) + "\n"


def _fish_option(here: str, option: Option) -> str:
    names = " ".join(
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    )
    value = ""
    if option.takes_value:
        value = " -r"
        if option.choices:
            value = f" -x -a '{' '.join(option.choices)}'"
        elif option.names[-1] in (*FOLDERS, *FILES):
            value = " -r -F"
    return (
        f"complete -c loopwright -n '{here}' {names}{value} -d {_quoted(option.text, _FISH_QUOTE)}"
    )


def _quoted(text: str, quote: str = "'\\''") -> str:
    """Put a text into single quotes; how one stands in there differs between shells."""
    return "'" + " ".join(text.split()).replace("'", quote) + "'"


SHELLS: dict[str, Callable[[list[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
