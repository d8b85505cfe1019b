"""/openapi.json is true to every answer, whatever is asked."""

from __future__ import annotations

import asyncio
import contextlib
import re
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis.errors import Unsatisfiable
from pydantic import TypeAdapter, ValidationError
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from orchestrator.web.models import Line
from tests.fuzzing import DEEP
from tests.orchestrator.loopkit import ASK
from tests.orchestrator.web.edge.test_webhooks import receiver
from tests.orchestrator.web.webkit import TOKEN, Options, Site, site

ACTIONS = ("pause", "resume", "stop", "guide", "unblock", "answer", "accept", "reject")
API = "/api/v1"
SPELLED = {"{agent_id}": "{id}", "{attempt}": "{n}", "{number}": "{n}"}
"""How the page about the API writes parts of paths."""
SHORT_WAIT, LONGEST_WAIT = 0.1, 60
RUN: dict[str, TypeAdapter[Any]] = {"command": TypeAdapter(Line), "verify": TypeAdapter(list[Line])}
"""Parts of a task that would be run."""


def invalid_is_refused(ctx: Any, response: Any, case: Any) -> bool | None:
    """Hold that what breaks the document is refused, if only for its length."""
    too_long = response.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return True if too_long else negative_data_rejection(ctx, response, case)


HELD = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    invalid_is_refused,
]


async def document(found: Site) -> dict[str, Any]:
    made: dict[str, Any] = (await found.client.get("/openapi.json")).json()
    return made


async def test_every_endpoint_is_described_and_says_what_goes_wrong(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        made = await document(found)
        paths = made["paths"]
        for verb in ACTIONS:
            operation = paths[f"/api/v1/lifecycles/{{agent_id}}/{verb}"]["post"]
            assert operation["requestBody"]["required"]
            assert {"200", "202", "401", "403", "404", "409", "413", "415", "422"} <= set(
                operation["responses"]
            )
        for path in (
            "/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/hooks/{provider}",
            "/api/v1/lifecycles", "/api/v1/lifecycles/{agent_id}", "/api/v1/events",
            "/api/v1/lifecycles/{agent_id}/events", "/api/v1/lifecycles/{agent_id}/summaries",
            "/api/v1/lifecycles/{agent_id}/summaries/{attempt}", "/api/v1/instances",
            "/api/v1/lifecycles/{agent_id}/attempts/{attempt}/log", "/api/v1/statistics",
            "/api/v1/deliveries",
        ):  # fmt: skip
            assert paths[path]
        for operations in paths.values():
            for operation in operations.values():
                for status, told in operation["responses"].items():
                    if int(status) >= 400 and status != "503":
                        form = told["content"]["application/json"]["schema"]
                        assert form == {"$ref": "#/components/schemas/Failure"}


async def test_the_page_about_the_api_names_each_endpoint_and_no_other(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "api.md").read_text("utf-8")
    async with site(tmp_path) as found:
        paths = (await document(found))["paths"]
    served = {path.removeprefix(API) for path in paths if path.startswith(API)}
    places = tuple({f"/{path.split('/')[1]}" for path in served})
    rows = [line for line in text.splitlines() if re.match(r"\| `(GET|POST|PUT|DELETE) /", line)]
    named = set[str]()
    for word in re.findall(r"/[a-z{][^`, ]*", "".join(row.split("|")[1] for row in rows)):
        path = word if word.startswith(places) else f"/lifecycles/{{id}}{word}"
        verbs = ACTIONS if "ACTION" in path else ("",)
        named |= {path.replace("ACTION", verb) for verb in verbs}
    spelled = {re.sub(r"{[a-z_]+}", lambda part: SPELLED.get(part[0], part[0]), p) for p in served}
    assert named == spelled


def profile(examples: int) -> settings:
    """Return how many requests of a kind are made: few, and the same each time, or many."""
    return settings(
        max_examples=examples * 50 if DEEP else examples,
        deadline=None,
        derandomize=not DEEP,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


class Asker:
    """Asks everything that a document describes, in right and wrong ways."""

    def __init__(self, url: str, session: requests.Session) -> None:
        self.url, self.session = url, session
        self.count = 0

    def ask_all(self, made: dict[str, Any]) -> None:
        for found in schemathesis.openapi.from_dict(made).get_all_operations():
            assert isinstance(found, Ok)
            lists = _lists_of_text(made["paths"][found.ok().path][found.ok().method])
            for mode in GenerationMode:
                for agent in ("", "asks") if "{agent_id}" in found.ok().path else ("",):
                    with contextlib.suppress(Unsatisfiable):
                        # There is no wrong way to ask for what takes nothing.
                        self.ask(found.ok().as_strategy(generation_mode=mode), agent, lists)

    def ask(self, strategy: Any, agent: str, lists: set[str]) -> None:
        @profile(1 if agent else 2)
        @given(case=strategy)
        def ask(case: Any) -> None:
            # In an address one value is a list of one, and any value is text.
            assume(all(isinstance(case.query.get(name, []), list) for name in lists))
            assume(all(map(_is_sent, case.query.values())))
            self.count += 1
            if agent:
                case.path_parameters = {**case.path_parameters, "agent_id": agent}
                _at_once(case.body)
            _harmless(case.body)
            case.call_and_validate(
                base_url=self.url,
                headers={"authorization": f"Bearer {TOKEN}"},
                session=self.session,
                checks=HELD,
            )

        ask()


def _lists_of_text(operation: dict[str, Any]) -> set[str]:
    """Return the query parameters that take several texts of any kind."""
    return {
        each["name"]
        for each in operation.get("parameters", ())
        if each["in"] == "query"
        and each["schema"].get("items", {}).get("type") == "string"
        and "enum" not in each["schema"]["items"]
    }


def _is_sent(value: object) -> bool:
    """Tell whether anything of a query parameter stands in the address."""
    if isinstance(value, dict):
        return any(map(_is_sent, value.values()))
    return any(map(_is_sent, value)) if isinstance(value, list) else True


def _at_once(body: object) -> None:
    """Let no valid order wait for its effect for long: it may take a minute, and tells no more."""
    if isinstance(body, dict):
        given = body.setdefault("wait", SHORT_WAIT)
        if isinstance(given, (int, float)) and SHORT_WAIT < given <= LONGEST_WAIT:
            body["wait"] = SHORT_WAIT


def _harmless(body: object) -> None:
    """Let nothing that was made up be run; what is refused anyway stays as it is."""
    if isinstance(body, dict):
        for name, form in RUN.items():
            with contextlib.suppress(ValidationError):
                form.validate_python(body.get(name))
                del body[name]


@pytest.mark.hypothesis
@pytest.mark.timeout(3600 if DEEP else 240)
async def test_nothing_that_is_asked_leads_to_an_answer_that_is_not_described(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, Options(receiver=receiver)) as found:
        found.world.settings('command = ["true"]\nretry_interval = 600\n')
        await found.add("asks", [ASK])
        await found.comes_to("AwaitingHuman", "asks")
        made = await document(found)
        with requests.Session() as session:
            session.trust_env = False
            asker = Asker(found.server.url, session)
            await asyncio.to_thread(asker.ask_all, made)
        assert asker.count > 100
        assert not [each for each in found.reports if each[0] == "api_request_failed"]
