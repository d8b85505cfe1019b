"""Several repositories, and one `loopwright serve` over them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from tests.orchestrator.loopkit import World, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.orchestrator.loopkit import Live

OPEN = "/api/v1/repositories"


class Several:
    """A server over several repositories, and who asks it."""

    def __init__(self, live: Live, told: dict[str, Any], client: httpx.Client, token: str) -> None:
        self.live, self.told, self.client, self.token = live, told, client, token
        self.url = str(told["url"])

    def of(self, name: str, path: str) -> Any:
        """Ask the API of one repository."""
        return self.client.get(f"{OPEN}/{name}{path}").raise_for_status().json()

    def order(self, name: str, path: str, body: Any) -> Any:
        """Have something changed in one repository."""
        return self.client.post(f"{OPEN}/{name}{path}", json=body).raise_for_status().json()

    def health(self) -> dict[str, str]:
        """Return how each does, as anybody may know."""
        return dict(self.client.get("/healthz").raise_for_status().json()["repositories"])

    def does(self, **wanted: str) -> None:
        """Wait until repositories do so."""
        until(lambda: wanted.items() <= self.health().items(), lambda: f"{self.health()}")

    def comes_to(self, name: str, kind: str, agent: str) -> None:
        """Wait until a lifecycle of a repository is in a work state."""

        def there() -> bool:
            return bool(self.of(name, f"/lifecycles/{agent}")["lifecycle"]["work"]["kind"] == kind)

        until(there, f"{agent} of {name} is {kind}")

    def page(self, path: str, **more: str) -> str:
        """Return a page as a browser gets it."""
        headers = {"accept": "text/html", **more}
        return self.client.get(path, headers=headers).raise_for_status().text


def worlds(folder: Path, *names: str) -> list[World]:
    """Return repositories of these names, each with one commit and quick settings."""
    made = []
    for name in names:
        place = folder / f"{name}-place"
        place.mkdir()
        world = World(place)
        world.repo = world.repo.rename(place / name)
        made.append(world)
    return made


@contextmanager
def several(world: World, *folders: Path, env: dict[str, str] | None = None) -> Iterator[Several]:
    """Serve these folders; the process is started in the repository of `world`."""
    args = [word for folder in folders for word in ("--repo", str(folder))]
    options = ("serve", "--port", "0", "--json", "--show-token", *args)
    with world.live(*options, serves=True, **(env or {})) as live:
        told = json.loads(until(lambda: live.out.rstrip().endswith("}") and live.out, "it serves"))
        headers = {"authorization": f"Bearer {told['token']}"}
        with httpx.Client(
            base_url=told["url"],
            headers=headers,
            trust_env=False,
            timeout=60,
            verify=False,  # noqa: S501  # no TLS
        ) as client:
            yield Several(live, told, client, told["token"])
