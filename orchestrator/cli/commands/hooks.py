"""`loopwright hooks`: the webhooks that arrived, their outcome, and processing one again."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ci.forge_registry import SENDERS, secret_variable
from ci.webhook_delivery import DeliveryState
from orchestrator.config.settings import load_settings
from orchestrator.control import webhooks
from orchestrator.control.people_only import require_person
from orchestrator.control.webhook_listener import LOOPBACK, WebhookListener, pass_on
from orchestrator.doctor import hooks_check
from orchestrator.terminal import exits
from orchestrator.terminal.options import (
    CommandLineParser,
    UsageError,
    count,
    find_repo,
    positive,
    user,
)
from orchestrator.terminal.text import (
    blocks,
    coloured,
    cut,
    instant,
    now,
    one_line,
    paint,
    safe,
    say,
    tell,
    terminal_width,
    to_json,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from ci.webhook_delivery import Delivery

ACTIONS = ("list", "show", "replay", "check", "listen")
STATES = tuple(map(str, DeliveryState))
HEADS = ("NO", "WHEN", "PROVIDER", "EVENT", "STATE", "OUTCOME")
_COLOURS = {"unmatched": "yellow", "broken": "red"}
"""The states that a person may want to look into."""
_PAGE = 1000
_ALLOWED = {
    "list": ("state", "provider", "limit", "before", "json"),
    "show": ("json",),
    "replay": ("provider", "event", "by"),
    "check": ("json",),
    "listen": ("provider", "port", "smee"),
}
_MORE = f"""\
actions:
  list            the newest first
  show KEY        one of them, whole; KEY is its number, its key, or the start of the key
  replay KEY      have the runner process it again, now or when one starts
  replay FILE --provider P [--event E]
                  process a saved body as if it had just arrived; needs no signature, is audited
  check           ask the forge for its hooks and their last deliveries, and say what did not
                  come here; the exit code is 2 if something is wrong
  listen          show what arrives at --port, and whether its signature is right; for development,
                  in place of `loopwright serve`. Set {secret_variable(SENDERS[0])} (or
                  {", ".join(SENDERS[1:]).upper()}) to the secret that the sender has
  listen --smee URL
                  forward what arrives on a smee channel to the server at --port. The channel
                  is public, may lose deliveries, and rewrites bodies, which can break signatures"""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "List webhook deliveries, show one, process one again, check the hooks, or listen.",
        example=(
            f"loopwright {name} list --state unmatched\n"
            f"loopwright {name} show 12\n"
            f"loopwright {name} replay github:72d3162e\n"
            f"loopwright {name} replay saved.json --provider github --event check_run\n"
            f"loopwright {name} check\n"
            f"loopwright {name} listen --smee https://smee.io/your-channel"
        ),
        more=_MORE,
    )
    made.with_action(ACTIONS)
    made.add_argument("what", nargs="?", metavar="KEY", help="a delivery, or a file to replay")
    made.add_argument("--state", choices=STATES, help="list only these")
    made.add_argument("--provider", choices=SENDERS, help="of which sender")
    made.add_argument("--limit", type=positive, metavar="N", help="deliveries to list (50)")
    made.add_argument("--before", type=count, metavar="NO", help="list only older ones than this")
    made.add_argument("--event", metavar="E", help="what the sender calls the event in the file")
    made.with_by("who replays; by default you")
    made.add_argument("--port", type=count, metavar="P", help="by default that of the server")
    made.add_argument("--smee", metavar="URL", help="the channel to forward")
    return made.with_json("print JSON instead of text, for list, show and check").with_repo()


def run(name: str, args: list[str]) -> int:
    """Do it."""
    made = parser(name)
    options = made.parse_args(args)
    if (options.what is not None) is not (options.action in {"show", "replay"}):
        takes = "a KEY; `hooks list` shows them" if options.what is None else "no KEY"
        made.error(f"`{name} {options.action}` takes {takes}")
    allowed = _ALLOWED[options.action]
    for option in sorted({each for names in _ALLOWED.values() for each in names} - set(allowed)):
        given = getattr(options, option)
        if given is not None and given is not False:
            made.error(f"`{name} {options.action}` takes no --{option}")
    repo = find_repo(options.repo)
    actions = {
        "list": _list,
        "show": _show,
        "replay": _replay,
        "check": _check,
        "listen": _listen,
    }
    return actions[options.action](repo, options)


def _list(repo: Path, options: Namespace) -> int:
    limit = min(options.limit or 50, _PAGE - 1)
    found = asyncio.run(
        webhooks.page(
            repo,
            state=options.state,
            provider=options.provider,
            before=options.before,
            limit=limit + 1,
        )
    )
    shown = found[:limit]
    more = shown[-1][0] if len(found) > limit else None
    if options.json:
        rows = [webhooks.form(number, delivery) for number, delivery in shown]
        say(to_json({"deliveries": rows, "next_cursor": more}))
        return 0
    if not shown:
        say("There are no such deliveries." if options.state or options.provider else _NONE)
        return 0
    say(_table(shown))
    if more is not None:
        tell(f"There are more: add --before {more}")
    return 0


_NONE = "No webhook has arrived yet; without webhooks, `loopwright` polls the forge."


def _table(shown: tuple[tuple[int, Delivery], ...]) -> str:
    present = now()
    rows = [
        (
            str(number),
            instant(each.received_at, present, seconds=True),
            each.provider,
            cut(each.event, 40),
            f"! {each.state}" if each.state in _COLOURS else str(each.state),
            each.outcome,
        )
        for number, each in shown
    ]
    lines = blocks(HEADS, rows, width=terminal_width(sys.stdout, os.environ))
    wanted = coloured(sys.stdout, os.environ)
    for at, (_, each) in enumerate(shown, 1):
        colour = _COLOURS.get(each.state, "")
        lines[at] = paint(lines[at], colour, wanted=wanted)
    return "\n".join(lines)


def _show(repo: Path, options: Namespace) -> int:
    found = asyncio.run(webhooks.one(repo, options.what))
    if options.json:
        say(to_json({**webhooks.form(None, found), "body": webhooks.body_value(found)}))
        return 0
    present = now()
    since = "" if found.settled_at is None else f" since {instant(found.settled_at, present)}"
    facts = [
        ("key", found.key),
        ("provider", found.provider),
        ("event", found.event),
        ("received", instant(found.received_at, present, seconds=True)),
        ("state", f"{found.state}{since}"),
        ("outcome", found.outcome),
        ("about", _about(found)),
        *sorted(found.headers.items()),
    ]
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        say(f"{safe(name):<{width}}  {one_line(value)}".rstrip())
    say(f"\n{safe(webhooks.body_text(found), lines=True)}")
    return 0


def _check(repo: Path, options: Namespace) -> int:
    found = asyncio.run(hooks_check.check(repo, environ=os.environ, now=now))
    if options.json:
        say(to_json(hooks_check.form(found)))
    else:
        present = now()
        for line in hooks_check.lines(found, when=lambda at: instant(at, present)):
            say(one_line(line))
    return exits.COMPLETE if hooks_check.is_well(found) else exits.USAGE


def _about(found: Delivery) -> str:
    hint = found.hint
    if hint is None:
        return ""
    numbers = [f"pull request {number}" for number in hint.numbers]
    branch = f"branch {hint.branch}" if hint.branch else ""
    return ", ".join(filter(None, (hint.repo, branch, hint.sha, *numbers)))


def _replay(repo: Path, options: Namespace) -> int:
    require_person(repo, f"hooks replay {options.what}")
    by, file = options.by or user(), Path(options.what)
    if options.provider is not None:
        made = webhooks.saved(
            file,
            provider=options.provider,
            event=options.event or "",
            key=f"replay-{secrets.token_hex(6)}",
            at=now(),
        )
        key, who = made.key, asyncio.run(webhooks.take_in(repo, made, by=by, source=str(file)))
    elif options.event is not None:
        raise UsageError("--event is for the body in a file; give --provider as well")
    else:
        try:
            key, who = asyncio.run(webhooks.again(repo, options.what, by=by, at=now()))
        except webhooks.HooksError as problem:
            hint = "; a file needs --provider" if file.exists() else ""
            raise UsageError(f"{problem}{hint}") from problem
    say(one_line(f"{key} is queued; {who}"))
    return 0


def _listen(repo: Path, options: Namespace) -> int:
    port = options.port
    if port is None:
        port = load_settings(repo, environ=os.environ).port
    provider = options.provider or "github"
    return _relay(options.smee, port, provider) if options.smee else _receive(port, provider)


def _receive(port: int, provider: str) -> int:
    with WebhookListener(port, provider, environ=os.environ, now=now, tell=_now) as listener:
        address = f"http://{LOOPBACK}:{listener.server_port}/hooks/{provider}"
        _now(f"listening on {address}; nothing is stored, Ctrl-C ends it")
        listener.serve_forever()
    return 0


def _relay(channel: str, port: int, provider: str) -> int:
    path = f"/hooks/{provider}"
    _now(f"forwarding from {channel} to http://{LOOPBACK}:{port}{path}; Ctrl-C ends it")
    asyncio.run(pass_on(channel, port, path, tell=_now))
    return 0


def _now(line: str) -> None:
    """Print a line that is seen at once, also through a pipe."""
    present = now()
    say(f"{instant(present, present, seconds=True)}  {one_line(line)}")
    sys.stdout.flush()
