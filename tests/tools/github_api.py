"""GitHub's published description of its API, against which tests check what is sent to it.

The package is unpacked once into the cache of `npm_tools`, and only what is checked is kept: paths,
methods, parameters, fields of bodies, and the words that may stand in them.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.tools.github_graphql import query_fault
from tests.tools.npm_tools import cached, packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PACKAGE = "@octokit/openapi@23.0.2"
INTEGRITY = (
    "pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg=="
)
"""The SHA-512 of its archive."""
WHOLE = "package/generated/api.github.com.json"
KEPT = "operations.json"
GRAPHQL = "/graphql"
"""What is described by a schema of its own."""

Operation: TypeAlias = "dict[str, Any]"


def fault_of(
    method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None
) -> str:
    """Return what GitHub's description has against a request; nothing if all is well."""
    if (method, path) == ("POST", GRAPHQL):
        fault = query_fault(body)
        return f"{method} {path}: {fault}" if fault else ""
    found = _operation(method, path)
    if found is None:
        return f"{method} {path}: there is no such operation"
    told = [
        *_wrong("parameter", query, found["query"], required=()),
        *_wrong("field", body or {}, found["body"], required=found["required"]),
    ]
    return f"{method} {path}: {', '.join(told)}" if told else ""


def _wrong(
    what: str, given: Mapping[str, Any], known: Mapping[str, Any], *, required: Iterable[str]
) -> Iterable[str]:
    for name, value in given.items():
        if name not in known and "*" not in known:
            yield f"unknown {what} {name}"
        elif (words := known.get(name)) and isinstance(value, str) and value not in words:
            yield f"{value!r} is none of {words} for {name}"
    yield from (f"{what} {name} is missing" for name in required if name not in given)


def _operation(method: str, path: str) -> Operation | None:
    found = (each for pattern, each in _operations()[method] if pattern.fullmatch(path))
    return next(found, None)


def described() -> Path:
    """Return the folder with the description, after fetching it if it is not there."""
    return cached(f"github-api-{INTEGRITY[:8].lower()}", _install)


@functools.cache
def _operations() -> dict[str, list[tuple[re.Pattern[str], Operation]]]:
    found: dict[str, list[tuple[re.Pattern[str], Operation]]] = {
        method: [] for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    }
    told = json.loads((described() / KEPT).read_text())
    # Where several fit, the one that says most itself is meant.
    for line in sorted(told, key=lambda line: -len(re.sub(r"\{\w+\}", "", line))):
        method, _, path = line.partition(" ")
        # Names of branches and files may have slashes.
        names = re.sub(r"\\\{(ref|path|branch)\\\}", ".+", re.escape(path))
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", names)
        found[method].append((re.compile(pattern), told[line]))
    return found


def _install(folder: Path) -> None:
    whole = json.loads(packed(folder, PACKAGE, INTEGRITY, WHOLE))
    (folder / KEPT).write_text(json.dumps(_kept(whole)))


def _kept(whole: dict[str, Any]) -> dict[str, Operation]:
    def seen(value: Any) -> Any:
        while isinstance(value, dict) and "$ref" in value:
            steps = value["$ref"].removeprefix("#/").split("/")
            value = functools.reduce(lambda node, step: node[step], steps, whole)
        return value

    kept: dict[str, Operation] = {}
    for path, methods in whole["paths"].items():
        for method, operation in methods.items():
            asked = [seen(each) for each in operation.get("parameters", ())]
            kept[f"{method.upper()} {path}"] = {
                "query": {
                    each["name"]: seen(each.get("schema", {})).get("enum")
                    for each in asked
                    if each["in"] == "query"
                },
                **_body(seen, operation),
            }
    return kept


def _body(seen: Any, operation: dict[str, Any]) -> Operation:
    content = seen(operation.get("requestBody", {})).get("content", {})
    schema = seen(content.get("application/json", {}).get("schema", {}))
    # Where there are several forms, each may have its own fields.
    forms = [schema, *map(seen, (*schema.get("oneOf", ()), *schema.get("anyOf", ())))]
    fields = {
        name: seen(told).get("enum")
        for form in forms
        for name, told in form.get("properties", {}).items()
    }
    free = schema.get("additionalProperties") and not fields
    asked_for = operation.get("requestBody", {}).get("required")
    required = list(schema.get("required", ())) if asked_for else []
    return {"body": {**fields, **({"*": None} if free else {})}, "required": required}
