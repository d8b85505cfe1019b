"""The token: made once, seen by nobody else, and refused where somebody else may have seen it."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from orchestrator.web.token import (
    LONGEST,
    TokenError,
    find_token,
    find_worker_token,
    own_file,
)

if TYPE_CHECKING:
    from pathlib import Path

RIGHT = "a-token-of-somebody-0123456789"


def env(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder / "home")}


def test_a_token_is_made_once_in_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    made = find_token(env(tmp_path), repo=tmp_path / "repo")
    assert made.path == tmp_path / "home/.config/loopwright/token"
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    assert len(made.value) >= 43
    assert not made.on_purpose
    again = find_token(env(tmp_path), repo=tmp_path / "repo")
    assert again == made
    assert [each.name for each in made.path.parent.iterdir()] == ["token"]
    other = find_token(env(tmp_path / "other"), repo=tmp_path / "repo")
    assert other.value != made.value


def test_the_value_does_not_show_in_what_is_printed_of_it(tmp_path: Path) -> None:
    made = find_token(env(tmp_path), repo=tmp_path / "repo")
    assert made.value not in repr(made)
    assert made.value not in made.place


def test_the_folder_for_settings_may_be_another(tmp_path: Path) -> None:
    environ = {**env(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert own_file(environ) == tmp_path / "xdg/loopwright/token"
    assert own_file({**environ, "XDG_CONFIG_HOME": "relative"}).is_relative_to(tmp_path / "home")


def test_runners_that_start_at_the_same_moment_have_the_same_token(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def find(place: int) -> str:
        together.wait()
        home = tmp_path / str(place // 8)
        return find_token({"HOME": str(home)}, repo=tmp_path / "repo").value

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(find, range(8 * 20)))
    for place in range(20):
        assert len(set(found[place * 8 : place * 8 + 8])) == 1
    assert len(set(found)) == 20


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o602, 0o777, 0o610])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    made = find_token(env(tmp_path), repo=tmp_path / "repo")
    assert made.path is not None
    made.path.chmod(mode)
    with pytest.raises(TokenError, match="chmod 600") as refused:
        find_token(env(tmp_path), repo=tmp_path / "repo")
    assert made.value not in str(refused.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"short", b"two words that are long enough", b"\xff" * 40, b"line-one-is-long\nline-two",
     b"x" * (LONGEST + 1), b"\0" * 40],
)  # fmt: skip
def test_what_is_no_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(TokenError, match="does not hold a valid token"):
        find_token(env(tmp_path), repo=tmp_path / "repo", given=str(path))


def test_a_link_a_pipe_and_a_folder_are_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_text(RIGHT)
    real.chmod(0o600)
    assert find_token({}, repo=tmp_path / "repo", given=str(real)).value == RIGHT
    (tmp_path / "link").symlink_to(real)
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(0o700)
    for name in ("link", "pipe", "folder"):
        with pytest.raises(TokenError):
            find_token({}, repo=tmp_path / "repo", given=str(tmp_path / name))


def test_a_file_or_a_variable_that_was_named_is_on_purpose(tmp_path: Path) -> None:
    given = find_token(env(tmp_path), repo=tmp_path / "repo", variable=f" {RIGHT}\n")
    assert given.on_purpose
    assert given.value == RIGHT
    assert "LOOPWRIGHT_TOKEN" in given.place
    with pytest.raises(TokenError, match="LOOPWRIGHT_TOKEN"):
        find_token(env(tmp_path), repo=tmp_path / "repo", variable="short")
    with pytest.raises(TokenError, match="does not exist"):
        find_token(env(tmp_path), repo=tmp_path, given=str(tmp_path / "missing"))
    assert not (tmp_path / "home").exists()


def test_it_is_never_kept_inside_of_the_repository(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="inside of the repository"):
        find_token(env(tmp_path), repo=tmp_path)
    (tmp_path / "repo").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "repo")
    with pytest.raises(TokenError, match="inside of the repository"):
        find_token(env(tmp_path), repo=tmp_path / "repo")


def test_where_there_is_no_place_for_it_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="HOME is not set"):
        find_token({}, repo=tmp_path)
    (tmp_path / "home").write_text("a file")
    with pytest.raises(TokenError, match="--token-file"):
        find_token(env(tmp_path), repo=tmp_path / "repo")


def test_workers_have_a_token_of_their_own_that_is_kept_like_the_servers(tmp_path: Path) -> None:
    server = find_token(env(tmp_path), repo=tmp_path / "repo")
    made = find_worker_token(server, repo=tmp_path / "repo")
    assert made.path == tmp_path / "home/.config/loopwright/worker-token"
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert made.value != server.value
    assert find_worker_token(server, repo=tmp_path / "repo") == made
    made.path.chmod(0o644)
    with pytest.raises(TokenError, match="others may read"):
        find_worker_token(server, repo=tmp_path / "repo")
    named = find_worker_token(server, repo=tmp_path / "repo", variable=RIGHT)
    assert named.value == RIGHT
    assert "LOOPWRIGHT_WORKER_TOKEN" in named.place
    with pytest.raises(TokenError, match="LOOPWRIGHT_WORKER_TOKEN"):
        find_worker_token(server, repo=tmp_path / "repo", variable="short")


def test_where_the_servers_token_was_given_that_of_workers_is_made_of_it(tmp_path: Path) -> None:
    given = find_token({}, repo=tmp_path, variable=RIGHT)
    made = find_worker_token(given, repo=tmp_path)
    assert made == find_worker_token(given, repo=tmp_path)
    assert RIGHT not in made.value
    assert made.value not in repr(made)
    other = find_token({}, repo=tmp_path, variable=f"{RIGHT}-2")
    assert find_worker_token(other, repo=tmp_path).value != made.value
