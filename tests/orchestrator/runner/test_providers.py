"""Which providers the settings make, and what is said where something is missing for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from ci.composite.provider import CompositeProvider
from ci.forge.provider import RemoteProvider
from ci.local.provider import LocalCIProvider
from lifecycle.settings import Settings
from orchestrator.errors import ConfigError
from orchestrator.runner.providers import ProviderInputs, make_providers
from tests.ci.ports import git

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.runner.providers import Providers


def made(
    repo: Path, *, origin: str = "", env: dict[str, str] | None = None, **settings: Any
) -> Providers:
    if not (repo / ".git").exists():
        repo.mkdir(exist_ok=True)
        assert git(repo, "init", "-q", "-b", "main")[0] == 0
    if origin:
        assert git(repo, "remote", "add", "origin", origin)[0] == 0
    read = Settings.model_validate(settings)
    return make_providers(ProviderInputs(repo, lambda: read, env or {}, lambda: 0.0))


def test_without_a_word_everything_stays_on_this_machine(tmp_path: Path) -> None:
    there = made(tmp_path / "r")
    assert isinstance(there.provider, LocalCIProvider)
    assert (there.forge, there.remote) == (None, None)


@pytest.mark.parametrize(
    ("origin", "name", "env", "place"),
    [
        ("git@github.com:team/app.git", "github", {}, "github.com/team/app"),
        ("https://ghe.example.org/team/app", "github", {}, "ghe.example.org/team/app"),
        ("https://gitlab.com/a/b/app.git", "gitlab", {"GITLAB_TOKEN": "t"}, "gitlab.com/a/b/app"),
        ("ssh://git@codeberg.org/team/app", "gitea", {"GITEA_TOKEN": "t"}, "codeberg.org/team/app"),
    ],
)
def test_a_forge_is_found_from_the_remote(
    tmp_path: Path, origin: str, name: str, env: dict[str, str], place: str
) -> None:
    there = made(tmp_path / "r", origin=origin, env=env, providers=(name,))
    assert isinstance(there.provider, RemoteProvider)
    assert there.forge is not None
    assert there.forge.place == place
    assert there.repository is not None
    assert there.repository.name == place.partition("/")[2]
    assert there.remote is not None


def test_several_are_joined_and_all_judge(tmp_path: Path) -> None:
    origin = "git@github.com:team/app.git"
    there = made(tmp_path / "r", origin=origin, providers=("github", "generic", "local"))
    assert isinstance(there.provider, CompositeProvider)
    assert there.provider.name == "github+local+generic"
    assert isinstance(there.provider.forge, RemoteProvider)
    assert len(there.provider.forge.judges) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"providers": ("github",)}, "does not exist: add the remote"),
        ({"providers": ("github", "gitlab")}, "only one forge can keep the pull requests"),
        (
            {"providers": ("gitlab",), "forge_url": "https://x.test/api/v4", "forge_repo": "a/b"},
            "there is no token for x.test: set LOOPWRIGHT_GITLAB_TOKEN",
        ),
        (
            {
                "providers": ("github",),
                "forge_url": "https://x.test",
                "forge_repo": "a/b",
                "github_app_id": "1",
            },
            "github_app_key must name its key file",
        ),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        made(tmp_path / "r", **settings)


def test_an_app_whose_extra_is_missing_is_refused_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigError, match=r"uv tool install 'loopwright\[github-app\]'"):
        made(
            tmp_path / "r",
            providers=("github",), forge_url="https://x.test", forge_repo="a/b",
            github_app_id="1", github_app_key="app.pem",
        )  # fmt: skip


def test_a_token_is_in_no_text_about_a_provider(tmp_path: Path) -> None:
    origin = "https://ada:hunter2@github.com/team/app.git"
    env = {"LOOPWRIGHT_GITHUB_TOKEN": "canary-token"}
    there = made(tmp_path / "r", origin=origin, env=env, providers=("github",))
    told = repr(there.forge) + repr(there.remote) + repr(there.provider) + there.signed_in_by
    assert "canary-token" not in told
    assert "hunter2" not in told


def test_two_secrets_are_believed_while_one_takes_over(tmp_path: Path) -> None:
    env = {"LOOPWRIGHT_GENERIC_HOOK_SECRET": "old new"}
    assert made(tmp_path / "r", env=env).secrets_of("generic") == ("old", "new")
