"""`loopwright init`: prepares a repository and says what to do next."""

from __future__ import annotations

from orchestrator.cli.options import Parser, find_repo
from orchestrator.cli.text import safe, say


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Prepare a repository: loopwright.toml with every setting explained, and git's excludes.",
        example=f"loopwright {name}",
        more="Changes nothing that is there already; running it again is harmless.",
    )
    made.add_argument(
        "--begin-anew",
        action="store_true",
        help="where the records of earlier loops are lost: begin with empty ones",
    )
    return made.with_repo()


def run(name: str, args: list[str]) -> int:
    """Prepare."""
    options = parser(name).parse_args(args)
    from orchestrator.preparing import prepare  # noqa: PLC0415  # git and the models are heavy

    repo = find_repo(options.repo)
    if options.begin_anew:
        from orchestrator.anew import begin_anew  # noqa: PLC0415  # rare, and heavy

        say(safe(begin_anew(repo)))
        return 0
    for step in prepare(repo):
        say(safe(f"{'done' if step.changed else 'ok  '}  {step.text}"))
    say()
    say('Next: `loopwright doctor` checks the machine; `loopwright run "TEXT"` starts a loop.')
    return 0
