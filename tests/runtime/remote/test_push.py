"""Commits go to the repository elsewhere, by every way that there is, and nothing is lost there."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from runtime.errors import RuntimeFault
from runtime.remote.remote import GitRemote, PushOutcome, url_of
from tests.runtime.remote.ends import HEADER, fake_ssh, serving

if TYPE_CHECKING:
    from pathlib import Path

    from ci.ports import Remote
    from tests.runtime.remote.ends import Far

DONE = PushOutcome(done=True, reason="")
MISSING = "0123456789" * 4
WAYS = ("path", "relative", "file", "http", "ssh", "short")
HOSTILE = (
    "--upload-pack=touch mark", "-c", "--", "a..b", "a:refs/heads/main", "*", "a b", "main.lock",
    "", "a\nb", "a\0b", "../../heads/x", "@{u}",
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_brings_commits_there_and_back(way: str, far: Far, tmp_path: Path) -> None:
    one, two = far.commit("one"), far.commit("two")
    environ, log = fake_ssh(tmp_path / "bin")
    with serving(tmp_path) as web:
        url = {
            "path": str(far.there),
            "relative": "../there.git",
            "file": f"file://{far.there}",
            "http": web.url("there.git"),
            "ssh": f"ssh://git@example.org:2222{far.there}",
            "short": f"git@example.org:{far.there}",
        }[way]
        remote: Remote = far.remote(url, environ=environ)
        assert await remote.fetch("agent/a", header=HEADER) is None
        assert await remote.push("agent/a", one, expected=None, header=HEADER) == DONE
        assert await remote.push("agent/a", two, expected=one, header=HEADER) == DONE
        assert await remote.push("agent/a", two, expected=one, header=HEADER) == DONE  # again
        assert await remote.push("agent/a", one, expected=two, header=HEADER) == DONE  # rewritten
        assert far.tip("agent/a") == one
        assert await remote.fetch("agent/a", header=HEADER) == one
        late = await remote.push("agent/a", far.commit("three"), expected=two, header=HEADER)
        assert (late.done, far.tip("agent/a")) == (False, one)
        assert one in late.reason
        assert two in late.reason
    assert bool(web.seen) is (way == "http")
    assert log.exists() is (way in {"ssh", "short"})


async def test_a_branch_that_somebody_else_moved_made_or_deleted_is_left_and_told(
    far: Far,
) -> None:
    ours, theirs, mine = far.commit("ours"), far.commit("theirs"), far.commit("mine")
    remote = far.remote()
    far.land("a", theirs)
    moved = await remote.push("a", mine, expected=ours, header={})
    made = await remote.push("a", mine, expected=None, header={})
    far.git(far.there, "update-ref", "-d", "refs/heads/a")
    deleted = await remote.push("a", mine, expected=ours, header={})
    assert {moved.done, made.done, deleted.done} == {False}
    assert f"is at {theirs}, and was last at {ours}" in moved.reason
    assert f"is at {theirs}, and was not there before" in made.reason
    assert f"is not there any more, and was last at {ours}" in deleted.reason
    assert "push again" in moved.reason
    assert far.tip("a") == ""


async def test_what_is_there_already_is_done_whatever_was_expected(far: Far) -> None:
    sha = far.commit("one")
    far.land("a", sha)
    for expected in (None, sha, MISSING):
        assert await far.remote().push("a", sha, expected=expected, header={}) == DONE


async def test_two_pushes_of_the_same_at_once_are_both_done(far: Far) -> None:
    sha = far.commit("one")
    pushes = (far.remote().push("a", sha, expected=None, header={}) for _ in range(4))
    outcomes = await asyncio.gather(*pushes)
    assert far.tip("a") == sha
    assert outcomes.count(DONE) >= 1
    for outcome in outcomes:
        # The loser of a race inside the other repository is told so, and tries again.
        again = (
            DONE if outcome.done else await far.remote().push("a", sha, expected=None, header={})
        )
        assert again == DONE


async def test_what_cannot_be_pushed_is_told(far: Far) -> None:
    sha, remote = far.commit("one"), far.remote()
    tree = far.git(far.repo, "rev-parse", "HEAD^{tree}")
    for wrong in (MISSING, tree, "HEAD", "", "--all"):
        refused = await remote.push("a", wrong, expected=None, header={})
        assert not refused.done
        assert "commit" in refused.reason
    for wrong in ("HEAD", "", "--all"):
        assert not (await remote.push("a", sha, expected=wrong, header={})).done
    assert far.git(far.there, "for-each-ref") == ""


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_branch_name_is_refused(name: str, far: Far) -> None:
    sha, remote = far.commit("one"), far.remote()
    far.land("main", sha)
    refused = await remote.push(name, sha, expected=None, header={})
    assert not refused.done
    assert refused.reason
    with pytest.raises(RuntimeFault):
        await remote.fetch(name, header={})
    assert not await remote.follow(name, sha)
    assert far.git(far.there, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert list(far.repo.glob("mark*")) == []


async def test_no_remote_and_no_repository_are_told(far: Far, tmp_path: Path) -> None:
    sha = far.commit("one")
    nowhere = GitRemote(far.repo, name="up", url=None, environ=os.environ)
    assert "git remote add up" in (await nowhere.push("a", sha, expected=None, header={})).reason
    with pytest.raises(RuntimeFault, match="git remote add up"):
        await nowhere.fetch("a", header={})
    outside = GitRemote(tmp_path, url=str(far.there), environ=os.environ)
    refused = await outside.push("a", sha, expected=None, header={})
    assert "git init" in refused.reason
    with pytest.raises(RuntimeFault, match="git init"):
        url_of(tmp_path)


async def test_the_url_is_read_once_and_a_later_change_leads_nowhere(
    far: Far, tmp_path: Path
) -> None:
    far.git(far.repo, "config", "--global", "remote.origin.url", "/elsewhere")
    assert url_of(far.repo) is None
    far.git(far.repo, "config", "--global", "--unset", "remote.origin.url")
    far.git(far.repo, "remote", "add", "origin", str(far.there))
    far.git(far.repo, "remote", "set-url", "--add", "origin", "/second")
    far.git(far.repo, "remote", "add", "my.Fork", "git@example.org:x/y.git")
    assert url_of(far.repo, "my.Fork") == "git@example.org:x/y.git"
    remote = far.remote(url_of(far.repo))
    evil = tmp_path / "evil.git"
    far.git(tmp_path, "init", "-q", "--bare", str(evil))
    far.git(far.repo, "config", "--replace-all", "remote.origin.url", str(evil))
    assert await remote.push("a", far.commit("one"), expected=None, header={}) == DONE
    assert far.git(evil, "for-each-ref") == ""


async def test_a_push_that_the_other_side_declines_tells_its_words_and_nothing_harmful(
    far: Far,
) -> None:
    hook = far.there / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nprintf 'main is \\033[31mprotected\\033[0m \\007here\\n' >&2\nexit 1\n"
    )
    hook.chmod(0o755)
    refused = await far.remote().push("main", far.commit("one"), expected=None, header={})
    assert not refused.done
    assert "pre-receive hook declined" in refused.reason
    assert "main is protected here" in refused.reason
    assert refused.reason.isprintable()


async def test_the_hooks_of_the_other_repository_run_there_as_usual(
    far: Far, tmp_path: Path
) -> None:
    hook = far.there / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f"#!/bin/sh\npwd > '{tmp_path / 'ran'}'\nenv | grep TOKEN >> '{tmp_path / 'ran'}'\n"
    )
    hook.chmod(0o755)
    assert await far.remote().push("a", far.commit("one"), expected=None, header=HEADER) == DONE
    assert (tmp_path / "ran").read_text() == f"{far.there}\n"


async def test_an_ssh_of_the_user_gets_its_agent_and_asks_nothing(far: Far, tmp_path: Path) -> None:
    environ, log = fake_ssh(tmp_path / "bin")
    environ["GIT_SSH_COMMAND"] = environ["GIT_SSH"] = "false"
    remote = far.remote(f"ssh://git@example.org:2222{far.there}", environ=environ)
    assert await remote.push("a", far.commit("one"), expected=None, header=HEADER) == DONE
    agent, *words = log.read_text().splitlines()[:-1]
    assert agent == "agent=/run/agent"
    assert words == [
        "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ControlMaster=no",
        "-o", "PermitLocalCommand=no", "-p", "2222", "git@example.org",
        f"git-receive-pack '{far.there}'",
    ]  # fmt: skip


async def test_the_real_ssh_that_reaches_nobody_is_told(far: Far) -> None:
    remote = far.remote("ssh://git@127.0.0.1:1/x")
    refused = await remote.push("a", far.commit("one"), expected=None, header={})
    assert "cannot be reached" in refused.reason
