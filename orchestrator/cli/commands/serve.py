"""`loopwright serve`: API and loops of a repository, or of several, until it is told to end."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.background.own_output import is_kept
from orchestrator.background.readiness import ready
from orchestrator.cli import run_loops
from orchestrator.cli.detach import start_detached, with_detach
from orchestrator.cli.loop_options import isolation, with_engine, with_looping
from orchestrator.cli.serve_repositories import ServeRequest, serve_repositories
from orchestrator.config.settings import load_user_settings
from orchestrator.control.open_store import runner_of
from orchestrator.control.people_only import require_person
from orchestrator.runner import job_selection
from orchestrator.runner.engine_choice import require_engine
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, count, find_repo, positive
from orchestrator.terminal.text import now, say, tell, to_json
from orchestrator.web.bound_server import BoundServer, bind, with_server
from orchestrator.web.edge.passes import VisitorRole
from orchestrator.web.links import place_of, role_token, sign_in_link
from orchestrator.web.token import VARIABLE, WORKER_VARIABLE, find_token, find_worker_token

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from lifecycle.engine.engine import LocalEngine
    from orchestrator.runner.repositories import ServedRepository
    from orchestrator.runner.workload import Workload
    from orchestrator.web.token import Token

ROLES = ("viewer", "operator", "admin")
MOST_PORT = 65_535
_EXAMPLES = """\
loopwright serve
loopwright serve --port 0 --json
loopwright serve --detach
loopwright serve --repo ~/app --repo ~/site
loopwright serve --link --role viewer"""
_MORE = """\
Continues every lifecycle that is not finished, as `loopwright up` does, starts what is added,
and keeps running when nothing is left. Requests need the token, in the header
"Authorization: Bearer TOKEN". It is made at the first start and kept in the named file, which only
you can read.

Two lines are printed once it answers: its address and where the token is, and a link that signs a
browser in once, within 15 minutes. With --json it is one JSON object: `url`, `token_file` (null
when the token is in the variable LOOPWRIGHT_TOKEN), `link`, `pid`.

With several repositories (--repo A --repo B, or `repos` in your own settings file) all are behind
one address: the board of all at /, each at /r/NAME/, its API below /api/v1/repositories/NAME. One
that cannot be served is named there and tried again; the others go on.

--link prints a new link for the server that is alive, and --role-token a token for a program that
may do no more than a role: viewer (reads), operator (all about tasks), admin (settings, too). A new
token file ends all of them. Of several repositories --repo DIR names the one that they open.
--worker-token prints the one by which workers hand in logs and summaries; it opens nothing else (on
a worker: in the variable LOOPWRIGHT_WORKER_TOKEN).

--detach starts it in the background and says its address and where its log is; `loopwright serve
--link` prints a link then, `loopwright down` ends it.

Exit code: 130/143 ended by a signal, 2 usage, 75 when another runner is at work here."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Serve the API of a repository, or of several, and run its loops.",
        example=_EXAMPLES,
        more=_MORE,
    )
    made.add_argument("--host", metavar="H", help="the address to listen on (127.0.0.1)")
    made.add_argument("--port", type=count, metavar="P", help="0 picks a free one")
    made.add_argument("--token-file", metavar="FILE", help="the token to ask for is in this file")
    made.add_argument("--show-token", action="store_true", help="print the token itself, too")
    made.add_argument(
        "--link", action="store_true", help="print a link that signs in once, for a live server"
    )
    made.add_argument(
        "--role-token", metavar="NAME", help="print a token for a program of that name"
    )
    made.add_argument(
        "--worker-token", action="store_true",
        help="print the token by which workers hand in logs and summaries",
    )  # fmt: skip
    made.add_argument(
        "--role", choices=ROLES, help="of that link or token (admin for a link, else viewer)"
    )
    made.add_argument("--max-live", type=positive, metavar="N", help="agents alive at once")
    with_detach(with_engine(with_looping(made)))
    made.add_argument(
        "--repo",
        action="append",
        metavar="DIR",
        help="the git repository; by default those of the setting repos, else the one around "
        "here. Given more than once, all are served at one address",
    )
    return made.with_json("print that line as JSON")


def run(name: str, args: list[str]) -> int:
    """Serve."""
    options = parser(name).parse_args(args)
    if options.port is not None and options.port > MOST_PORT:
        raise UsageError(f"--port {options.port} is not a valid port; ports go up to {MOST_PORT}")
    if options.role and not (options.link or options.role_token):
        raise UsageError("--role goes with --link or --role-token")
    if options.worker_token:
        return _worker_token(options)
    if options.link or options.role_token:
        return _pass(options)
    confined = isolation(options.isolation, allow_weaker=options.allow_weaker)
    folders = _several(options)
    if folders:
        if options.detach:
            return start_detached(name, args, folders, options)
        return _serve_several(options, folders, confined)
    repo = find_repo(_one(options))
    # Taken out, so that nothing that is started here inherits it.
    given = os.environ.pop(VARIABLE, "")
    context = run_loops.CommandContext.of(
        repo,
        engine=options.engine,
        max_live_agents=options.max_live,
        stay_for_people=True,
        **confined,
    )
    settings = context.settings()
    require_engine(settings, context.environ)
    if options.detach:
        os.environ.update({VARIABLE: given} if given else {})
        return start_detached(name, args, [repo], options)
    host = options.host or settings.host
    port = options.port if options.port is not None else settings.port
    token = find_token(context.environ, repo=repo, given=options.token_file, variable=given)
    workers = find_worker_token(token, repo=repo, variable=os.environ.pop(WORKER_VARIABLE, ""))

    def listens(url: str) -> None:
        _say_where(options, url, token)

    async def work(engine: LocalEngine) -> Workload:
        # The repository is ours: now nobody else of it can have the address.
        sock = bind(host, port, token)
        front = BoundServer(sock, host, token, stays=True, say=listens, worker_token=workers.value)
        planned = job_selection.planned(
            engine, None, context.settings(), everything=True, tell=tell, stays=True
        )
        return await with_server(front, planned)

    ending = asyncio.run(
        run_loops.loop_through(
            context, work, who="loopwright serve", plain=options.plain, revives=True
        )
    )
    return ending.exit_code


def folders_of(given: Iterable[str]) -> list[Path]:
    """Return absolute folders, also of those that do not exist now; each once."""
    return list(dict.fromkeys(Path(each).expanduser().resolve() for each in given))


def _several(options: Namespace) -> list[Path]:
    """Return the folders to serve together; none where it is one repository."""
    given = options.repo
    if given is None:
        given = load_user_settings(os.environ).repos
    folders = folders_of(given)
    return folders if len(folders) > 1 else []


def _one(options: Namespace) -> str | None:
    """Return the folder that is meant, where it is one."""
    named = options.repo or load_user_settings(os.environ).repos
    return str(folders_of(named)[0]) if named else None


def _serve_several(
    options: Namespace, folders: Sequence[Path], confined: Mapping[str, object]
) -> int:
    """Serve several repositories; settings of the server itself are of no repository."""
    given = os.environ.pop(VARIABLE, "")
    settings = load_user_settings(os.environ)
    for folder in folders:
        require_person(folder, "run loops")
    token, *_ = (
        find_token(os.environ, repo=folder, given=options.token_file, variable=given)
        for folder in folders
    )
    of_workers = os.environ.pop(WORKER_VARIABLE, "")
    workers, *_ = (find_worker_token(token, repo=folder, variable=of_workers) for folder in folders)

    def listens(url: str, repositories: Sequence[ServedRepository]) -> None:
        told = [{"name": each.name, "folder": str(each.folder)} for each in repositories]
        _say_where(options, url, token, {"repositories": told})

    request = ServeRequest(
        host=options.host or settings.host,
        port=options.port if options.port is not None else settings.port,
        token=token,
        worker_token=workers,
        allowed_hosts=settings.allowed_hosts,
        overrides={
            "engine": options.engine,
            "max_live_agents": options.max_live,
            "stay_for_people": True,
            **confined,
        },
        listens=listens,
    )
    return asyncio.run(serve_repositories(folders, request))


def _say_where(
    options: Namespace, url: str, token: Token, more: Mapping[str, object] | None = None
) -> None:
    """Print the address, where the token is, and a link."""
    shown = {"token": token.value} if options.show_token else {}
    link = sign_in_link(url, token.value, now=now())
    if options.json:
        file = str(token.path) if token.path is not None else None
        told = {"url": url, "token_file": file, "token_place": token.place, "pid": os.getpid()}
        say(to_json({**told, "link": link, **(more or {}), **shown}, compact=True))
    else:
        also = f": {token.value}" if options.show_token else ""
        say(f"{url} (token in {token.place}{also})")
        if is_kept():
            say("sign in: `loopwright serve --link` prints a link")
        else:
            say(f"sign in (once, within 15 min): {link}")
    sys.stdout.flush()
    ready(url)


def _worker_token(options: Namespace) -> int:
    """Print the token of workers, which is one for all repositories."""
    repo = next(iter(_several(options)), None) or find_repo(_one(options))
    require_person(repo, "serve --worker-token")
    server = find_token(
        os.environ, repo=repo, given=options.token_file, variable=os.environ.get(VARIABLE, "")
    )
    token = find_worker_token(server, repo=repo, variable=os.environ.get(WORKER_VARIABLE, ""))
    told = {"worker_token": token.value, "place": token.place}
    say(to_json(told, compact=True) if options.json else token.value)
    return exits.COMPLETE


def _pass(options: Namespace) -> int:
    """Print a link or a token for the server of this repository."""
    served = (each for each in _several(options) if (runner_of(each) or {}).get("url"))
    repo = next(served, None) or find_repo(_one(options))
    require_person(repo, "serve --link")
    token = find_token(
        os.environ, repo=repo, given=options.token_file, variable=os.environ.get(VARIABLE, "")
    )
    url = str((runner_of(repo) or {}).get("url", ""))
    # Who names a repository means that one alone, whether or not it is served now.
    place = place_of(repo, url) if options.repo else ""
    if options.role_token:
        role = VisitorRole(options.role or "viewer")
        name = options.role_token
        say(role_token(token.value, now=now(), role=role, name=name, place=place))
        return exits.COMPLETE
    if not url:
        raise UsageError("no server is alive here; start one with: loopwright serve")
    role = VisitorRole(options.role or "admin")
    link = sign_in_link(url, token.value, now=now(), role=role, place=place)
    say(to_json({"link": link}, compact=True) if options.json else link)
    return exits.COMPLETE
