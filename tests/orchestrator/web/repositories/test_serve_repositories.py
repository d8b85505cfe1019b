"""One `loopwright serve` over several repositories, as a process and over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from lifecycle.clock import SystemClock
from lifecycle.paths import Paths
from lifecycle.store.lock import RunnerLock
from orchestrator.control.open_store import runner_of
from tests.ci.forge_server import Allowance, answers, forge_server
from tests.orchestrator.loopkit import ASK, DONE, until
from tests.orchestrator.web.repositories.several import several, worlds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.web.repositories.several import Several

SECRET = "a-secret-of-the-organisation"  # noqa: S105  # opens nothing
WORKERS = "a-token-of-their-workers-0123456789"  # opens nothing, either


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the token and the user's own settings a place of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_good_ones_work_beside_broken_ones_which_are_named_and_tried_again(tmp_path: Path) -> None:
    app, site, locked, damaged, bad = worlds(tmp_path, "app", "site", "locked", "damaged", "bad")
    agent = app.script("agent", {"attempts": {"1": [ASK], "default": [DONE]}})
    for each in (app, site):
        each.settings(
            f"command = {json.dumps(agent.split())}\nstop_grace = 0.3\nbaseline = false\n"
        )
    bad.settings("max_retries = 'many'\n")
    records = Paths.of(damaged.repo)
    records.root.mkdir()
    records.database.write_bytes(b"no database " * 1000)
    locked_root = Paths.of(locked.repo).root
    locked_root.mkdir()
    gone = tmp_path / "gone"
    repos = [each.repo for each in (app, site, locked, damaged, bad)]
    with (
        RunnerLock(locked_root, who="another runner") as lock,
        several(app, *repos, gone, env={"LOOPWRIGHT_WORKER_TOKEN": WORKERS}) as serve,
    ):
        assert serve.live.out.count("\n") == 1
        named = ["app", "site", "locked", "damaged", "bad", "gone"]
        assert [each["name"] for each in serve.told["repositories"]] == named
        serve.does(
            app="ok", site="ok", locked="locked", damaged="store", bad="settings", gone="folder"
        )

        # The same name in two repositories is two tasks.
        serve.order("app", "/lifecycles", {"text": "Do it", "name": "first"})
        serve.order("site", "/lifecycles", {"text": "Do that", "name": "first"})
        serve.comes_to("app", "AwaitingHuman", "first")
        serve.comes_to("site", "AwaitingHuman", "first")
        serve.order("app", "/lifecycles/first/answer", {"text": "green"})
        serve.comes_to("app", "Completed", "first")
        assert site.row("first")["work_kind"] == "AwaitingHuman"

        _the_board_names_all(serve)
        _a_repository_has_its_own_pages(serve)
        assert (runner_of(site.repo) or {})["url"] == f"{serve.url}/r/site"

        lock.release()
        serve.does(locked="ok", damaged="store", app="ok")

        # To begin with empty records is a person's decision.
        assert serve.client.get("/api/v1/repositories/damaged").json()["again_at"] is None
        serve.client.post("/api/v1/repositories/damaged/open", json={}).raise_for_status()
        serve.does(damaged="ok")
        assert serve.client.post("/api/v1/repositories/damaged/open", json={}).status_code == 409

        # One whose records are taken away while it runs ends alone.
        shutil.rmtree(Paths.of(locked.repo).root)
        serve.does(locked="store", app="ok")

        serve.live.signal(signal.SIGTERM)
        serve.live.ends(143)
        assert "locked: another runner" in serve.live.err
    assert app.row("first")["work_kind"] == "Completed"
    assert site.row("first")["work_kind"] == "AwaitingHuman"


def _the_board_names_all(serve: Several) -> None:
    board = serve.page("/")
    assert 'href="/r/app/review/first"' in board
    assert 'href="/r/site/t/first"' in board
    assert 'id="row-app-first"' in board
    for name in ("locked", "damaged", "bad", "gone"):
        assert f"<b>{name}</b>" in board
    assert "must be a whole number" in board
    assert "another runner" in board
    only = serve.page("/?repo=site")
    assert "/r/site/t/first" in only
    assert "/r/app/review" not in only
    items = serve.client.get("/api/v1/repositories").json()["items"]
    assert {each["name"]: each["needs"] for each in items if each["needs"]} == {"app": 1, "site": 1}
    broken = serve.client.get("/api/v1/repositories/gone/lifecycles")
    assert broken.status_code == 503
    assert "gone is not served now" in broken.json()["error"]["text"]
    assert "does not exist" in broken.json()["error"]["text"]
    numbers = serve.client.get("/metrics").text
    assert 'loopwright_repository_up{repository="gone"} 0' in numbers
    assert 'loopwright_lifecycles{repository="site",state="needs-you"} 1' in numbers
    assert numbers.count("# TYPE loopwright_lifecycles gauge") == 1
    which = serve.client.get("/api/v1/lifecycles")
    assert which.status_code == 404
    assert "/api/v1/repositories/NAME/lifecycles" in which.json()["error"]["what_to_do"]
    assert serve.client.get("/api/v1/repositories/nobody/board").status_code == 404


def _a_repository_has_its_own_pages(serve: Several) -> None:
    page = serve.page("/r/site/t/first")
    assert 'action="/r/site/t/first/answer"' in page
    assert 'href="/repositories"' in page
    assert 'href="/r/site/"' in page
    assert 'href="/t/' not in page
    with httpx.Client(base_url=serve.url, trust_env=False, verify=False) as stranger:  # noqa: S501  # there is no TLS
        unknown = stranger.get("/r/site/t/first", headers={"accept": "text/html"})
        assert unknown.headers["location"] == "/login?next=%2Fr%2Fsite%2Ft%2Ffirst"
        assert stranger.get("/api/v1/repositories/site/lifecycles").status_code == 401
        assert stranger.get("/healthz").json()["status"] == "degraded"
        # Workers hand in below its place, with the token of workers.
        path = "/r/site/api/worker/attempts/agent-nobody/1/log"
        worker = {"authorization": f"Bearer {WORKERS}", "x-loopwright-worker": "a"}
        assert stranger.put(path, content=b"x").status_code == 401
        refused = stranger.put(path, content=b"x", headers=worker)
        assert (refused.status_code, "agent-nobody" in refused.text) == (404, True)
    with serve.client.stream(
        "GET", "/r/site/ui/events?view=board", headers={"accept": "text/event-stream"}
    ) as stream:
        assert b"hello" in next(stream.iter_bytes())


def _sent(serve: Several, repository: str, sha: str, path: str = "/hooks/github") -> Any:
    body = json.dumps(
        {
            "action": "completed",
            "check_run": {"head_sha": sha, "check_suite": {"head_branch": "main"}},
            "repository": {"full_name": repository},
        }
    ).encode()
    seal = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "x-github-event": "check_run",
        "x-github-delivery": sha,
        "x-hub-signature-256": f"sha256={seal}",
        "content-type": "application/json",
    }
    return serve.client.post(path, content=body, headers=headers)


def test_one_webhook_address_serves_an_organisation(tmp_path: Path) -> None:
    app, site, away = worlds(tmp_path, "app", "site", "away")
    forge = 'providers = ["github"]\nforge_url = "http://127.0.0.1:9"\nbaseline = false\n'
    for each, name in ((app, "app"), (site, "Site"), (away, "away")):
        each.settings(f'{forge}forge_repo = "team/{name}"\n')
    env = {"LOOPWRIGHT_GITHUB_HOOK_SECRET": SECRET, "LOOPWRIGHT_GITHUB_TOKEN": "t" * 20}
    root = Paths.of(away.repo).root
    root.mkdir()
    with RunnerLock(root), several(app, app.repo, site.repo, away.repo, env=env) as serve:
        serve.does(app="ok", site="ok", away="locked")

        def kept(name: str) -> int:
            return len(serve.of(name, "/deliveries")["items"])

        assert _sent(serve, "team/app", "a" * 40).json()["text"] == "kept"
        assert (kept("app"), kept("site")) == (1, 0)
        assert _sent(serve, "team/app", "a" * 40).json()["text"] == "known already"
        assert _sent(serve, "TEAM/site", "b" * 40).status_code == 202
        assert (kept("app"), kept("site")) == (1, 1)

        nobodys = _sent(serve, "team/another", "c" * 40)
        assert nobodys.status_code == 202
        assert "about no repository that is served here" in nobodys.json()["text"]
        assert (kept("app"), kept("site")) == (1, 1)

        # The forge is to send it again: its repository is known, and cannot take it now.
        assert _sent(serve, "team/away", "d" * 40).status_code == 503
        assert _sent(serve, "team/app", "e" * 40, "/r/app/hooks/github").status_code == 202
        assert (kept("app"), kept("site")) == (2, 1)
        assert serve.client.post("/hooks/github", content=b"{}").status_code == 401


async def test_repositories_of_one_token_know_of_each_others_calls(tmp_path: Path) -> None:
    app, site = worlds(tmp_path, "app", "site")
    async with forge_server() as forge:
        forge.route("GET", "/repos/team/{name}", lambda asked: answers(
            {"full_name": f"team/{asked.names['name']}"}
        ))  # fmt: skip
        forge.allowance = Allowance(100, 600, SystemClock().now)
        for each in (app, site):
            each.settings(
                f'providers = ["github"]\nforge_url = "{forge.url}"\nbaseline = false\n'
                f'forge_repo = "team/{each.repo.name}"\n'
            )
        env = {"LOOPWRIGHT_GITHUB_HOOK_SECRET": SECRET, "LOOPWRIGHT_GITHUB_TOKEN": "t" * 20}

        def asked() -> str:
            with several(app, app.repo, site.repo, env=env) as serve:
                serve.does(app="ok", site="ok")
                # Each asks the forge whether it has this name now.
                assert _sent(serve, "team/renamed", "a" * 40).status_code == 202
                return serve.client.get("/metrics").text

        numbers = await asyncio.to_thread(asked)
        assert len(forge.requests) == 2
        for name in ("app", "site"):
            left = f'loopwright_forge_requests_remaining{{repository="{name}",forge="github"}} 98'
            assert left in numbers


def test_the_user_file_names_them_and_a_repository_may_not(tmp_path: Path) -> None:
    app, site, bad = worlds(tmp_path, "app", "site", "bad")
    bad.settings('repos = ["/"]\n')
    own = tmp_path / "config/loopwright/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"repos = {json.dumps([str(each.repo) for each in (app, site, bad)])}\n")
    with several(app) as serve:
        serve.does(app="ok", site="ok", bad="settings")
        [told] = [
            each["trouble"]
            for each in serve.client.get("/api/v1/repositories").json()["items"]
            if each["name"] == "bad"
        ]
        assert "loopwright.toml, line 1: repos is about several repositories" in told
        assert "move it to your own one" in told
        link = app.json("serve", "--link")["link"]
        assert link.startswith(f"{serve.url}/r/app/login?token=")
        asked = serve.client.get(link, headers={"accept": "text/html"}, follow_redirects=True)
        assert asked.url.path == "/login"
        assert 'name="next" value="/r/app/"' in asked.text


def test_a_person_opens_a_broken_one_from_the_board(tmp_path: Path) -> None:
    app, late = worlds(tmp_path, "app", "late")
    away = late.repo.rename(tmp_path / "away")
    own = tmp_path / "config/loopwright/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("repos_day_budget_usd = 50.0\n")
    with several(app, app.repo, late.repo) as serve:
        serve.does(app="ok", late="folder")
        with httpx.Client(
            base_url=serve.url,
            trust_env=False,
            headers={"accept": "text/html"},
            verify=False,  # noqa: S501  # there is no TLS
        ) as browser:
            form = {"token": serve.token, "name": "Ada"}
            assert browser.post("/login", data=form).headers["location"] == "/"
            board = browser.get("/").text
            assert "1 of 2 repositories" in board
            assert "$0.00 of $50.00 today" in board
            assert 'action="/repositories/late/open"' in board
            guard = board.partition('name="csrf" value="')[2].partition('"')[0]
            away.rename(late.repo)
            assert browser.post("/repositories/late/open", data={"x": "y"}).status_code == 403
            opened = browser.post("/repositories/late/open", data={"csrf": guard})
            assert (opened.status_code, opened.headers["location"]) == (303, "/")
            serve.does(late="ok")


def test_a_sign_in_for_one_repository_opens_no_other(tmp_path: Path) -> None:
    app, site = worlds(tmp_path, "app", "site")
    with several(app, app.repo, site.repo) as serve:
        serve.does(app="ok", site="ok")
        link = app.json("serve", "--link", "--repo", str(app.repo))["link"]
        token = app.call("serve", "--role-token", "ci", "--repo", str(app.repo)).stdout.strip()
        with httpx.Client(
            base_url=serve.url,
            trust_env=False,
            headers={"accept": "text/html"},
            verify=False,  # noqa: S501  # there is no TLS
        ) as browser:
            form = {"link": link.rpartition("token=")[2], "name": "Ada", "next": "/r/app/"}
            signed = browser.post("/login", data=form)
            assert (signed.status_code, signed.headers["location"]) == (303, "/r/app/")
            page = browser.get("/r/app/")
            assert page.status_code == 200
            assert "All repositories" not in page.text
            for path in ("/r/site/", "/", "/ui/board", "/api/v1/repositories"):
                refused = browser.get(path)
                assert refused.status_code == 403
                assert "this sign-in is for the repository app alone" in refused.text
        headers = {"authorization": f"Bearer {token}"}
        for name, status in (("app", 200), ("site", 403)):
            path = f"/api/v1/repositories/{name}/lifecycles"
            assert serve.client.get(path, headers=headers).status_code == status


def test_a_token_of_one_repository_does_not_go_to_the_next_of_its_name(tmp_path: Path) -> None:
    for each in ("one", "two"):
        (tmp_path / each).mkdir()
    (first,), (second,) = (worlds(tmp_path / each, "app") for each in ("one", "two"))
    (site,) = worlds(tmp_path, "site")

    def token() -> str:
        return first.call("serve", "--role-token", "ci", "--repo", str(first.repo)).stdout.strip()

    def status(serve: Several, token: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        path = "/api/v1/repositories/app/lifecycles"
        return serve.client.get(path, headers=headers).status_code

    unserved = token()
    with several(site, first.repo, site.repo) as serve:
        serve.does(app="ok", site="ok")
        served = token()
        assert [status(serve, each) for each in (served, unserved)] == [200, 200]
        everywhere = serve.client.get(
            "/api/v1/repositories", headers={"authorization": f"Bearer {unserved}"}
        )
        assert everywhere.status_code == 403
    with several(site, second.repo, site.repo) as serve:
        serve.does(app="ok", site="ok")
        assert [status(serve, each) for each in (served, unserved)] == [403, 403]


def test_ctrl_c_ends_all_with_their_work_saved(tmp_path: Path) -> None:
    both = worlds(tmp_path, "app", "site")
    agent = both[0].script("agent", [{"write": "half.txt"}, {"hang": {}}])
    for each in both:
        each.settings(
            f"command = {json.dumps(agent.split())}\nstop_grace = 0.3\nbaseline = false\n"
        )
    with several(both[0], *(each.repo for each in both)) as serve:
        serve.does(app="ok", site="ok")
        for each in both:
            serve.order(each.repo.name, "/lifecycles", {"text": "Half of it", "name": "half"})
        for each in both:
            until((each.workspace("half") / "half.txt").exists, "its agent is at work")
        serve.live.signal(signal.SIGINT)
        serve.live.ends(130)
    for each in both:
        saved = each.git("for-each-ref", "--format=%(refname)", "refs/loopwright/saved")
        assert "half.txt" in each.git("ls-tree", "--name-only", saved)
        assert runner_of(each.repo) is None


def test_a_budget_of_the_day_holds_for_all_together(tmp_path: Path) -> None:
    app, site = worlds(tmp_path, "app", "site")
    agent = app.script("agent", [DONE])
    for each in (app, site):
        told_by = '[[notify]]\nname = "me"\ncommand = ["true"]\n'
        each.settings(f"command = {json.dumps(agent.split())}\nbaseline = false\n{told_by}")
    env = {"LOOPWRIGHT_REPOS_DAY_BUDGET_ATTEMPTS": "1"}
    with several(app, app.repo, site.repo, env=env) as serve:
        serve.does(app="ok", site="ok")
        serve.order("app", "/lifecycles", {"text": "The first", "name": "first"})
        serve.comes_to("app", "Completed", "first")
        serve.order("site", "/lifecycles", {"text": "One too many", "name": "second"})
        serve.comes_to("site", "Rejected", "second")
        told = json.dumps(serve.of("site", "/lifecycles/second"))
        assert "budget of the day of all repositories: 1 of 1 attempts used" in told

        def said() -> list[str]:
            items = [serve.of(name, "/notifications")["items"] for name in ("app", "site")]
            return [each["text"] for found in items for each in found if each["type"] == "budget"]

        until(said, "somebody is told")
        [text] = said()
        assert "100 % of today's budget of all repositories is used: 1 of 1 attempts" in text


def test_one_that_does_not_answer_keeps_no_other_from_a_budget_they_share(tmp_path: Path) -> None:
    app, site = worlds(tmp_path, "app", "site")
    agent = app.script("agent", [DONE])
    app.settings(f"command = {json.dumps(agent.split())}\nbaseline = false\n")
    hangs = site.repo / "loopwright.toml"
    hangs.unlink(missing_ok=True)
    os.mkfifo(hangs)
    env = {"LOOPWRIGHT_REPOS_DAY_BUDGET_ATTEMPTS": "5"}
    with several(app, app.repo, site.repo, env=env) as serve:
        serve.does(app="ok")
        serve.order("app", "/lifecycles", {"text": "Go on", "name": "first"})
        serve.comes_to("app", "Completed", "first")
        assert "site: not open after 2 s: the others go on" in serve.live.err
        read = os.open(hangs, os.O_WRONLY)
        hangs.unlink()
        os.close(read)
        serve.does(site="ok")
