"""The API refuses query parameters that a path does not take; pages and webhooks take any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import ASK
from tests.orchestrator.web.edge.test_webhooks import receiver
from tests.orchestrator.web.webkit import SSE, Options, site

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_parameter_that_a_path_does_not_take_is_refused_with_those_it_takes(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", [ASK])
        await found.comes_to("AwaitingHuman", agent)
        told = await found.get(f"/lifecycles/{agent}/attempts/1/log?tail=1&Wn=null&zz", 422)
        assert told["error"]["code"] == "invalid"
        assert told["error"]["text"] == "query.Wn, query.zz: there is no such parameter"
        assert told["error"]["what_to_do"] == "leave it out; this path takes tail"
        told = await found.get("/lifecycles?State=working", 422)
        assert "query.State" in told["error"]["text"]
        assert "record_state, state," in told["error"]["what_to_do"]
        await found.get("/lifecycles?state=working&limit=1")
        told = await found.get("/lifecycles?limit=1&limit=2", 422)
        assert told["error"]["text"] == "query.limit: given more than once"
        await found.get("/lifecycles?state=working&state=done")
        told = await found.get("/settings?x=1", 422)
        assert told["error"]["what_to_do"] == "leave it out; this path takes no parameters"
        await found.get("/events?since=1", 422, headers=SSE)
        told = await found.post(f"/lifecycles/{agent}/answer?text=no", {"text": "green"}, 422)
        assert "query.text" in told["error"]["text"]
        await found.get("/nothing?x=1", 404)


async def test_every_path_of_the_api_refuses_it_and_no_other(tmp_path: Path) -> None:
    async with site(tmp_path, Options(receiver=receiver)) as found:
        paths = (await found.client.get("/openapi.json")).json()["paths"]
        for path, operations in paths.items():
            for verb, operation in operations.items():
                if not path.startswith("/api/v1/"):
                    continue
                assert "query parameter" in operation["responses"]["422"]["description"], path
                named = path.format(agent_id="a", attempt=1, number=1, name="n")
                answer = await found.client.request(verb, f"{named}?Wn=1", json={})
                assert answer.status_code == 422, (verb, path, answer.text)
                assert "query.Wn" in answer.json()["error"]["text"], (verb, path)
        for page in ("/", "/costs", "/healthz", "/metrics", "/openapi.json"):
            assert (await found.client.get(f"{page}?utm_source=mail")).status_code == 200, page
        hooked = await found.client.post("/hooks/generic?tag=forge", json={})
        assert hooked.status_code == 401, "judged by its signature"
