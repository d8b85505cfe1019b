"""Nothing that an agent planted serves it when the runner pushes or fetches."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from runtime.errors import RuntimeFault
from runtime.remote.remote import GitRemote, url_of
from tests.runtime.git.attacks.bed import new_bed, plain_git
from tests.runtime.git.attacks.remote_attacks import ATTACKS, SIGNED, RemoteAttack, Scene
from tests.runtime.remote.ends import HEADER, TOKEN, self_signed, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def _scene(top: Path, template: Path, way: str) -> AsyncIterator[Scene]:
    bed = await new_bed(top, template)
    (top / "ear").mkdir()
    with serving(top) as web, serving(top / "ear", wants=None) as ear:
        scene = Scene(bed, web, ear)
        for there in (scene.there, scene.evil):
            plain_git(top, "clone", "-q", "--bare", "-b", "main", str(template), str(there))
        plain_git(bed.repo, "remote", "add", "origin", scene.address(way))
        yield scene


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_what_was_planted_serves_with_plain_git_and_not_with_ours(
    attack: RemoteAttack, tmp_path: Path, template: Path
) -> None:
    async with _scene(tmp_path / "careless", template, attack.way) as scene:
        attack.plant(scene)
        scene.bed.mark.unlink(missing_ok=True)
        scene.careless(attack)
        assert scene.fired, "the attack does not work at all, so this would prove nothing"

    async with _scene(tmp_path / "ours", template, attack.way) as scene:
        url = url_of(scene.bed.repo)
        attack.plant(scene)
        scene.bed.mark.unlink(missing_ok=True)
        await _reach(scene, attack, GitRemote(scene.bed.repo, url=url, environ=scene.bed.environ))
        assert not scene.fired


async def _reach(scene: Scene, attack: RemoteAttack, remote: GitRemote) -> None:
    """Do all that a runner does with a remote."""
    header = {} if "without" in attack.way else HEADER
    sha = plain_git(scene.bed.repo, "rev-parse", "agent/a")
    wrong = await remote.push("agent/a", sha, expected=sha, header=header)
    assert not wrong.done
    right = await remote.push("agent/a", sha, expected=None, header=header)
    assert right.done is attack.reached, right.reason
    if not attack.reached:
        with pytest.raises(RuntimeFault):
            await remote.fetch("main", header=header)
        return
    assert plain_git(scene.there, "rev-parse", "refs/heads/agent/a") == sha
    main = plain_git(scene.there, "rev-parse", "main")
    assert await remote.fetch("main", header=header) == main
    assert await remote.follow("main", main)


@pytest.mark.parametrize("key", ["http.sslVerify", "http.sslCAInfo"])
async def test_a_planted_trust_does_not_let_a_stranger_hear_the_sign_in(
    key: str, tmp_path: Path, template: Path
) -> None:
    bed = await new_bed(tmp_path / "bed", template)
    pem = self_signed(tmp_path)
    plain_git(tmp_path, "clone", "-q", "--bare", str(template), "there.git")
    bed.config(key, "false" if key == "http.sslVerify" else str(tmp_path / "cert.pem"))
    with serving(tmp_path, certificate=pem) as stranger:
        url = stranger.url("there.git")
        bed.git(*SIGNED, "push", "-q", url, "agent/a")
        assert stranger.heard(HEADER["Authorization"]), "the attack does not work at all"
        stranger.seen.clear()
        remote = GitRemote(bed.repo, url=url, environ=bed.environ)
        sha = plain_git(bed.repo, "rev-parse", "agent/a")
        refused = await remote.push("agent/a", sha, expected=None, header=HEADER)
        assert "certificate" in refused.reason
        assert TOKEN not in refused.reason
        assert stranger.seen == []


async def test_the_hooks_of_this_repository_do_not_run_as_those_of_its_remote(
    tmp_path: Path, template: Path
) -> None:
    bed = await new_bed(tmp_path / "bed", template)
    for name in ("pre-receive", "update", "post-receive", "post-update"):
        bed.program(name, bed.common / "hooks")
    bed.git("push", "-q", str(bed.repo), "agent/a:refs/heads/careless")
    assert bed.fired, "the attack does not work at all"
    bed.mark.unlink()
    sha = plain_git(bed.repo, "rev-parse", "agent/a")
    for url in (str(bed.repo), f"file://{bed.common}", str(bed.work)):
        remote = GitRemote(bed.repo, url=url, environ=bed.environ)
        assert not (await remote.push("ours", sha, expected=None, header={})).done
        with pytest.raises(RuntimeFault, match="this repository itself"):
            await remote.fetch("main", header={})
    assert not bed.fired
