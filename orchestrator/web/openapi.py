"""/openapi.json: what FastAPI knows of the endpoints, and what it cannot know.

Owns what is said about hooks, tokens and the form of what goes wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.forge_registry import SENDERS
from orchestrator.web.edge.access import OPEN, TOP
from orchestrator.web.edge.answers import says_no
from orchestrator.web.edge.webhooks import PATH
from orchestrator.web.models import FailureForm, ReceivedForm
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from fastapi import FastAPI


def document(app: FastAPI) -> dict[str, Any]:
    """Return the document."""
    made = app.openapi()
    schemas = made["components"]["schemas"]
    for form in (FailureForm, ReceivedForm):
        told = model_of(form).model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(told.pop("$defs", {}))
        schemas[form.__name__.removesuffix("Form")] = told
    for name in ("HTTPValidationError", "ValidationError"):
        # What is wrong with a request is told in our own form.
        schemas.pop(name, None)
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"token": []}]
    for path in (*OPEN, TOP):
        for operation in made["paths"].get(path, {}).values():
            operation["security"] = []
    made["paths"][f"{PATH}{{provider}}"] = {"post": _hook()}
    return made


def _hook() -> dict[str, Any]:
    refused = says_no(400, 401, 404, 405, 408, 413, 500, 503)
    refusals = {str(status): told for status, told in refused.items()}
    kept = {"application/json": {"schema": {"$ref": "#/components/schemas/Received"}}}
    return {
        "summary": "Take a webhook request",
        "description": "Only its signature counts. It is stored before it is answered.",
        "operationId": "hook",
        "security": [],
        "parameters": [
            {
                "name": "provider",
                "in": "path",
                "required": True,
                "schema": {"type": "string", "enum": list(SENDERS)},
            }
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {}}}},
        "responses": {"202": {"description": "kept", "content": kept}, **refusals},
    }
