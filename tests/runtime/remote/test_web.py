"""What signs us in goes to one web host and nowhere else, and whatever that host does is told."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.errors import GitError, RuntimeFault
from runtime.git.git import Git
from runtime.remote.remote import PushOutcome
from tests.runtime.remote.ends import HEADER, PAIR, TOKEN, self_signed, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.remote.remote import GitRemote
    from tests.runtime.remote.ends import Far, Web

DONE = PushOutcome(done=True, reason="")
PLAIN = {"Content-Type": "text/plain"}


async def _refusal(remote: GitRemote, sha: str, header: Mapping[str, str] = HEADER) -> str:
    """Return why a push and a fetch are refused; without a prompt, a wait or a secret in it."""
    async with asyncio.timeout(20):
        refused = await remote.push("a", sha, expected=None, header=header)
        with pytest.raises(RuntimeFault) as caught:
            await remote.fetch("a", header=header)
    assert not refused.done
    chain = (
        f"{refused.reason}\n{caught.value!r}\n{caught.value.__cause__}{caught.value.__context__}"
    )
    for secret in (TOKEN, PAIR, *header.values()):
        assert secret not in chain
    return chain


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"Authorization": "Basic d3Jvbmc6d3Jvbmctd3Jvbmc="},
        {"Authorization": "Bearer wrong-wrong"},
    ],
)
async def test_a_wrong_or_no_sign_in_is_told_at_once(
    header: dict[str, str], web: Web, far: Far
) -> None:
    reason = await _refusal(far.remote(web.url("there.git")), far.commit("one"), header)
    assert reason.count("does not accept the credentials") == 2
    assert web.url("there.git") in reason


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        ((403, PLAIN, b""), "forbids this"),
        ((404, PLAIN, b""), "no such repository"),
        ((500, PLAIN, b""), "retry later"),
        ((503, {**PLAIN, "Retry-After": "60"}, b""), "retry later"),
        ((429, PLAIN, b""), "retry later"),
        ((301, {"Location": "http://127.0.0.1:9/there.git"}, b""), "another address"),
        ((200, {"Content-Type": "text/html"}, b"<html>\nlog in"), "not a git server"),
    ],
)
async def test_what_a_host_answers_is_told_in_plain_words(
    answer: tuple[int, Mapping[str, str], bytes], meaning: str, web: Web, far: Far
) -> None:
    status, headers, body = answer
    web.answer = (status, headers, body + f"{TOKEN} {PAIR} \x1b[31mred\x07".encode())
    reason = await _refusal(far.remote(web.url("there.git")), far.commit("one"))
    assert reason.count(meaning) == 2, reason
    assert "\x1b" not in reason


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x.git", "https://nowhere.invalid/TLS/x.git"])
async def test_a_host_that_is_not_there_is_told(url: str, far: Far) -> None:
    reason = await _refusal(far.remote(url), far.commit("one"))
    assert reason.count("cannot be reached") == 2


async def test_what_signs_us_in_does_not_follow_to_another_host(far: Far) -> None:
    with serving(far.there.parent) as first, serving(far.there.parent, wants=None) as second:
        for name in ("info/refs", "git-receive-pack", "git-upload-pack"):
            first.answer = (302, {"Location": second.url(f"there.git/{name}?service={name}")}, b"")
        first.answer = (
            302, {"Location": second.url("there.git/info/refs?service=git-receive-pack")}, b"",
        )  # fmt: skip
        header = {"Private-Token": TOKEN, **HEADER}
        settings = [("-c", f"http.extraHeader={name}: {value}") for name, value in header.items()]
        careless = ("git", *(word for each in settings for word in each))
        subprocess.run(  # noqa: ASYNC221  # to show what happens without care
            (*careless, "push", first.url("there.git"), "main:a"),
            cwd=far.repo, capture_output=True, check=False,
        )  # fmt: skip
        assert second.heard(TOKEN), "the attack does not work at all"
        second.seen.clear()
        reason = await _refusal(far.remote(first.url("there.git")), far.commit("one"), header)
        assert "another address" in reason
        assert first.heard(TOKEN)
        assert second.seen == []


def _arguments() -> str:
    """Return the arguments of all processes of this machine."""
    proc = Path("/proc")
    if not (proc / "self").exists():
        command = ("ps", "-Aww", "-o", "args")
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout
    found = []
    for each in proc.glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(found)


def _contents(top: Path) -> str:
    """Return what is in all files below a folder."""
    return "".join(
        file.read_bytes().decode(errors="replace") for file in top.rglob("*") if file.is_file()
    )


async def test_the_sign_in_is_in_no_argument_and_no_file(
    web: Web, far: Far, tmp_path: Path
) -> None:
    web.hold = True
    sha = far.commit("one")
    remote = far.remote(web.url("there.git"))
    push = asyncio.create_task(remote.push("a", sha, expected=None, header=HEADER))
    await web.until_held()
    running = _arguments()
    assert web.url("there.git") in running
    for said in (running, _contents(tmp_path)):
        assert TOKEN not in said
        assert PAIR not in said
    web.hold = False
    web.ended.set()
    outcome = await push
    assert not outcome.done
    assert TOKEN not in outcome.reason
    assert await remote.push("a", sha, expected=None, header=HEADER) == DONE
    assert web.heard(PAIR)
    assert TOKEN not in _contents(tmp_path)
    assert PAIR not in _contents(tmp_path)


async def test_a_password_in_the_address_signs_in_but_is_not_said(web: Web, far: Far) -> None:
    url = web.url("there.git").replace("://", f"://bot:{TOKEN}@")
    sha = far.commit("one")
    assert await far.remote(url).push("a", sha, expected=None, header={}) == DONE
    wrong = {"Authorization": "Bearer other-other"}
    assert "does not accept" in await _refusal(far.remote(url), sha, wrong)
    web.hold = True
    late = await far.remote(url, timeout=0.3).push("a", sha, expected=None, header={})
    assert TOKEN not in late.reason
    assert "127.0.0.1" in late.reason


async def test_a_line_break_in_a_header_is_refused(web: Web, far: Far) -> None:
    sha = far.commit("one")
    for header in ({"A": "x\r\nHost: y"}, {"A\n": "x"}, {"A: b": "x"}, {"A": "x\0"}, {"": "x"}):
        assert "malformed" in await _refusal(far.remote(web.url("there.git")), sha, header)
    assert web.seen == []


async def test_nothing_that_the_user_keeps_for_git_signs_in_instead(
    web: Web, far: Far, git_home: Path, git_cli: Callable[..., str]
) -> None:
    sha = far.commit("one")
    netrc = git_home / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login bot password {TOKEN}\n")
    netrc.chmod(0o600)
    git_cli(far.repo, "push", "-q", web.url("there.git"), "main:a")
    assert far.tip("a") == sha, "it would not sign in anyway"
    assert "does not accept" in await _refusal(far.remote(web.url("there.git")), sha, {})


async def test_a_certificate_is_checked_and_the_users_own_authority_counts(
    far: Far, tmp_path: Path
) -> None:
    pem = self_signed(tmp_path)
    sha = far.commit("one")
    with serving(tmp_path, certificate=pem) as web:
        reason = await _refusal(far.remote(web.url("there.git")), sha)
        assert reason.count("certificate is not trusted") == 2
        assert web.seen == []
        environ = {**os.environ, "SSL_CERT_FILE": str(tmp_path / "cert.pem")}
        remote = far.remote(web.url("there.git"), environ=environ)
        assert await remote.push("a", sha, expected=None, header=HEADER) == DONE


async def test_a_proxy_of_the_user_is_asked_and_sees_no_sign_in(far: Far) -> None:
    with serving(far.there.parent) as proxy:
        names = ("https_proxy", "http_proxy", "ALL_PROXY")
        environ = {**os.environ, **dict.fromkeys(names, proxy.url(""))}
        for url in ("https://example.invalid/x.git", "http://127.0.0.1:9/x.git"):
            await _refusal(far.remote(url, environ=environ), far.commit("one"))
        assert {path for path, _ in proxy.seen} == {"example.invalid:443"}
        assert not proxy.heard(PAIR)


async def test_a_far_host_that_is_silent_holds_no_other_git_up(web: Web, far: Far) -> None:
    web.hold = True
    sha = far.commit("one")
    remote = far.remote(web.url("there.git"))
    pushes = [
        asyncio.create_task(remote.push(f"a{number}", sha, expected=None, header=HEADER))
        for number in range(10)
    ]
    await web.until_held()
    async with asyncio.timeout(10):
        heads = (Git().run("rev-parse", "HEAD", cwd=far.repo) for _ in range(8))
        assert {each.text for each in await asyncio.gather(*heads)} == {sha}
    assert not any(push.done() for push in pushes)
    for push in pushes:
        push.cancel()
    await asyncio.gather(*pushes, return_exceptions=True)


async def test_a_silent_host_is_given_up_and_nothing_of_the_push_is_left(
    web: Web, far: Far
) -> None:
    web.hold = True
    remote = far.remote(web.url("there.git"), timeout=0.3)
    sha = far.commit("one")
    refused = await remote.push("a", sha, expected=None, header=HEADER)
    assert "did not end within 0.3 s" in refused.reason
    assert web.url("there.git") in refused.reason
    with pytest.raises(GitError, match=r"did not end within 0\.3 s"):
        await remote.fetch("a", header=HEADER)
    async with asyncio.timeout(10):
        while web.url("there.git") in _arguments():  # noqa: ASYNC110  # a signal takes its time
            await asyncio.sleep(0.01)
