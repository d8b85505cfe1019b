"""Signing in at GitHub as an App: a key makes short tokens for one repository.

Owns the lifetime of these tokens. The key file is read for each of them and never kept.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import ForgeError, MissingError, ProviderError, UnauthorizedError
from ci.forge.json_fields import epoch, needed_number, needed_text
from ci.forge.sign_in import basic, bearer
from ci.github.auth import GIT_USER
from ci.github.client import ACCEPT
from ci.http.client import HttpClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ci.http.circuit_breaker import CircuitBreakers

SPARE = 300.0
"""Seconds before its end at which a token is replaced."""
_PACKAGES = ("jwt", "cryptography")
_MISSING = (
    "signing in as a GitHub App needs an extra that is not installed; install it with "
    "`uv tool install 'loopwright[github-app]'` or `pip install 'loopwright[github-app]'`"
)
_BACKWARDS = 60
"""Seconds by which our clock may be ahead of GitHub's."""
_PROOF_HOLDS = 540
"""Seconds; GitHub takes ten minutes at most."""


class GitHubAppSignIn:
    """Tokens of an App's installation, each for this repository alone."""

    def __init__(  # noqa: PLR0913  # each is one setting
        self,
        *,
        app_id: str,
        key_file: Path,
        repo: str,
        api: str,
        now: Callable[[], float],
        installation: int | None = None,
        breakers: CircuitBreakers | None = None,
    ) -> None:
        if not all(map(find_spec, _PACKAGES)):
            raise ProviderError(_MISSING)
        self._app_id = app_id
        self._key_file = key_file
        self._repo = repo
        self._now = now
        self._installation = installation
        self._token, self._until = "", 0.0
        self._asking = asyncio.Lock()
        self._http = HttpClient(
            api.rstrip("/"),
            sign=self._proof,
            now=now,
            breakers=breakers,
            advice=f"check the id of the GitHub App {app_id} and its key {key_file}",
        )

    @property
    def source(self) -> str:
        """The App."""
        return f"GitHub App {self._app_id}"

    @property
    def account(self) -> str:
        """None that is known: each installation has a limit of its own, and tokens of it differ."""
        return ""

    async def sign(self) -> Mapping[str, str]:
        """Return the header of an API request."""
        return bearer(await self._get())

    async def git_header(self) -> Mapping[str, str]:
        """Return the header of a git push or fetch over HTTPS."""
        return basic(GIT_USER, await self._get())

    def renew(self) -> bool:
        """Make another token the next time."""
        self._token = ""
        return True

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def _get(self) -> str:
        async with self._asking:
            if not self._token or self._now() >= self._until - SPARE:
                await self._make()
            return self._token

    async def _make(self) -> None:
        if self._installation is None:
            self._installation = await self._find_installation()
        answer = await self._http.send(
            "POST",
            f"/app/installations/{self._installation}/access_tokens",
            json={"repositories": [self._repo.rpartition("/")[2]]},
            headers=ACCEPT,
        )
        what = "a token of the installation"
        self._token = needed_text(what, answer.body, "token")
        self._until = epoch(answer.body, "expires_at")

    async def _find_installation(self) -> int:
        try:
            answer = await self._http.get(
                f"/repos/{quote(self._repo)}/installation", headers=ACCEPT
            )
        except MissingError as error:
            raise ForgeError(
                f"the GitHub App {self._app_id} is not installed for {self._repo}: install it on "
                "its page, under Install App",
                status=error.status,
            ) from None
        return needed_number("an installation", answer.body, "id")

    async def _proof(self) -> Mapping[str, str]:
        import jwt  # noqa: PLC0415  # an extra that only Apps need

        at = int(self._now())
        claims = {"iat": at - _BACKWARDS, "exp": at + _PROOF_HOLDS, "iss": self._app_id}
        try:
            key = await asyncio.to_thread(self._key_file.read_text, "ascii")
            return bearer(jwt.encode(claims, key, algorithm="RS256"))
        except (OSError, ValueError, TypeError, jwt.PyJWTError) as error:
            # Not the error's own text: it may show a part of the key.
            raise UnauthorizedError(
                f"{self._key_file} cannot be used as the private key of the GitHub App "
                f"{self._app_id} ({type(error).__name__}): download a new .pem on the App's page"
            ) from None
