"""Signing in at GitHub: variables, `gh`, and a GitHub App against emulate's check of its proof."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING

import pytest

from ci.errors import ForgeError, ProviderError, UnauthorizedError
from ci.forge.protocol import NewPull
from ci.github.app import GitHubAppSignIn
from ci.github.auth import GitHubSignIn
from lifecycle.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from tests.ci.github.emulated import Emulated
    from tests.ci.github.github_world import EmulatedWorld


class Gh:
    """`gh auth token`, with what it prints."""

    def __init__(self, *printed: str, code: int = 0) -> None:
        self.printed = list(printed)
        self.code = code
        self.asked: list[Sequence[str]] = []

    async def __call__(self, argv: Sequence[str]) -> tuple[int, str]:
        self.asked.append(argv)
        return self.code, self.printed.pop(0) if self.printed else ""


@pytest.mark.parametrize(
    ("environ", "host", "token"),
    [
        ({"LOOPWRIGHT_GITHUB_TOKEN": "a", "GITHUB_TOKEN": "b", "GH_TOKEN": "c"}, "github.com", "a"),
        ({"GITHUB_TOKEN": "b", "GH_TOKEN": "c"}, "github.com", "b"),
        ({"GH_TOKEN": " c\n", "GITHUB_TOKEN": " "}, "github.com", "c"),
        ({"GH_TOKEN": "c"}, "octo.ghe.com", "c"),
        ({"GH_ENTERPRISE_TOKEN": "d", "GITHUB_TOKEN": "b"}, "git.example.org", "d"),
        ({"LOOPWRIGHT_GITHUB_TOKEN": "a", "GH_ENTERPRISE_TOKEN": "d"}, "git.example.org", "a"),
    ],
)
async def test_the_first_variable_that_holds_a_token_is_used(
    environ: dict[str, str], host: str, token: str
) -> None:
    sign_in = GitHubSignIn(environ, host)
    assert await sign_in.sign() == {"Authorization": f"Bearer {token}"}
    pair = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    assert await sign_in.git_header() == {"Authorization": f"Basic {pair}"}
    assert environ[sign_in.source].strip() == token
    assert not sign_in.renew()


async def test_a_token_for_github_com_is_not_shown_to_another_host() -> None:
    sign_in = GitHubSignIn({"GITHUB_TOKEN": "b", "GH_TOKEN": "c"}, "git.example.org")
    with pytest.raises(UnauthorizedError, match="GH_ENTERPRISE_TOKEN"):
        await sign_in.sign()


async def test_without_a_variable_gh_is_asked_once_and_again_when_its_token_is_refused() -> None:
    gh = Gh("one\n", "two\n")
    sign_in = GitHubSignIn({}, "GitHub.com", run=gh)
    for _ in range(2):
        assert await sign_in.sign() == {"Authorization": "Bearer one"}
    assert gh.asked == [("gh", "auth", "token", "--hostname", "github.com")]
    assert sign_in.renew()
    assert await sign_in.sign() == {"Authorization": "Bearer two"}


@pytest.mark.parametrize("gh", [None, Gh(code=1), Gh("")])
async def test_no_token_anywhere_is_said_with_what_to_do(gh: Gh | None) -> None:
    sign_in = GitHubSignIn({}, "github.com", run=gh)
    with pytest.raises(UnauthorizedError, match=r"gh auth login --hostname github\.com"):
        await sign_in.sign()


async def test_a_missing_gh_is_no_crash() -> None:
    async def run(argv: Sequence[str]) -> tuple[int, str]:
        raise FileNotFoundError(argv[0])

    with pytest.raises(UnauthorizedError, match="LOOPWRIGHT_GITHUB_TOKEN"):
        await GitHubSignIn({}, "github.com", run=run).sign()


@pytest.mark.parametrize("odd", ["ghp_secret\r\nX-Evil: 1", "ghp_secret other", "ghp_secretä"])
async def test_what_cannot_be_a_token_is_refused_and_not_shown(odd: str) -> None:
    with pytest.raises(UnauthorizedError, match="GITHUB_TOKEN") as caught:
        await GitHubSignIn({"GITHUB_TOKEN": odd}, "github.com").sign()
    assert "secret" not in str(caught.value)


def test_a_token_is_not_shown_by_its_holder() -> None:
    assert "ghp_secret" not in repr(GitHubSignIn({"GITHUB_TOKEN": "ghp_secret"}, "github.com"))


class Apps:
    """Makes sign-ins of emulate's App, and a clock that can be moved on."""

    def __init__(self, emulated: Emulated, folder: Path) -> None:
        self.later = 0.0
        self._emulated = emulated
        self._folder = folder
        self._made: list[GitHubAppSignIn] = []

    def now(self) -> float:
        return SystemClock().now() + self.later

    def make(
        self, repo: str, *, app_id: str = "", key: str = "", installation: int | None = None
    ) -> GitHubAppSignIn:
        key_file = self._folder / "app.pem"
        key_file.write_text(key or self._emulated.app_key)
        sign_in = GitHubAppSignIn(
            app_id=app_id or self._emulated.app_id,
            key_file=key_file,
            repo=repo,
            api=self._emulated.url,
            now=self.now,
            installation=installation,
        )
        self._made.append(sign_in)
        return sign_in

    async def aclose(self) -> None:
        for each in self._made:
            await each.aclose()


@pytest.fixture
async def apps(tmp_path: Path, emulated: Emulated) -> AsyncIterator[Apps]:
    apps = Apps(emulated, tmp_path)
    yield apps
    await apps.aclose()


@pytest.mark.parametrize("installation", [None, 70])
async def test_an_app_works_with_its_repository(
    world: EmulatedWorld, apps: Apps, installation: int | None
) -> None:
    sign_in = apps.make(world.repo, installation=installation)
    forge = world.new_forge(sign=sign_in.sign, renew=sign_in.renew)
    await world.commit("agent/a")
    pull = await forge.create_pull(NewPull(branch="agent/a", base="main", title="t"))
    assert await forge.pull(pull.number) == pull
    assert (await forge.access()).can_write


async def test_an_apps_token_is_kept_until_shortly_before_its_end(
    world: EmulatedWorld, apps: Apps
) -> None:
    sign_in = apps.make(world.repo)
    first = await sign_in.sign()
    apps.later = 3600 - 301
    assert await sign_in.sign() == first
    apps.later = 3600 - 299
    second = await sign_in.sign()
    assert second != first
    assert sign_in.renew()
    assert await sign_in.sign() != second
    assert (await sign_in.git_header())["Authorization"].startswith("Basic ")


async def test_an_app_that_is_not_installed_is_said_clearly(apps: Apps) -> None:
    with pytest.raises(ForgeError, match="not installed for somebody/else"):
        await apps.make("somebody/else").sign()


@pytest.mark.parametrize("key", ["no key", "-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0\n"])
async def test_a_key_that_is_none_is_not_shown(apps: Apps, key: str) -> None:
    with pytest.raises(UnauthorizedError, match=r"app\.pem cannot be used") as caught:
        await apps.make("acme/any", key=key).sign()
    assert key[-8:].strip() not in str(caught.value)


async def test_the_key_of_another_app_is_refused(world: EmulatedWorld, apps: Apps) -> None:
    sign_in = apps.make(world.repo, app_id="8", installation=70)
    with pytest.raises(UnauthorizedError, match="GitHub App 8"):
        await sign_in.sign()


@pytest.mark.parametrize("package", ["jwt", "cryptography"])
def test_a_missing_package_says_how_to_get_it(
    apps: Apps, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ProviderError, match=r"pip install 'loopwright\[github-app\]'"):
        apps.make("acme/any")
