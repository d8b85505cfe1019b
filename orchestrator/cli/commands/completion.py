"""`loopwright completion SHELL`: prints the completion script for a shell."""

from __future__ import annotations

import sys

from orchestrator.cli.completion_scripts import SHELLS, script
from orchestrator.terminal.options import CommandLineParser


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Print the completion script for a shell.",
        example=(
            f'eval "$(loopwright {name} bash)"        # in ~/.bashrc\n'
            f'eval "$(loopwright {name} zsh)"         # in ~/.zshrc, after compinit\n'
            f"loopwright {name} fish > ~/.config/fish/completions/loopwright.fish"
        ),
    )
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    return made


def run(name: str, args: list[str]) -> int:
    """Print."""
    options = parser(name).parse_args(args)
    sys.stdout.write(script(options.shell))
    return 0
