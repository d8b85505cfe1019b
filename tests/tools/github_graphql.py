"""GitHub's published GraphQL schema, against which tests check queries, variables and answers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    build_ast_schema,
    parse,
    validate,
)
from graphql.execution import get_variable_values

from tests.tools.npm_tools import cached, packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from graphql import DocumentNode, GraphQLSchema, SelectionSetNode

PACKAGE = "@octokit/graphql-schema@15.26.1"
INTEGRITY = (
    "RFDC2MpRBd4AxSRvUeBIVeBU7ojN/SxDfALUd7iVYOSeEK3gZaqR2MGOysj4Zh2xj2RY5fQAUT+Oqq7hWTraMA=="
)
"""The SHA-512 of its archive."""
SCHEMA = "schema.graphql"
FIELDS = frozenset({"query", "variables", "operationName"})
"""What a request may hold."""


def query_fault(body: Any) -> str:
    """Return what the schema has against a request; nothing if all is well."""
    if not isinstance(body, dict) or not isinstance(body.get("query"), str):
        return "a request needs a query"
    if unknown := sorted(set(body) - FIELDS):
        return f"unknown field {', '.join(unknown)}"
    try:
        document = parse(body["query"], no_location=True)
    except GraphQLError as error:
        return error.message
    told = [error.message for error in validate(_schema(), document)]
    return "; ".join(told or _wrong_variables(document, body.get("variables") or {}))


def answer_fault(query: str, answer: Any) -> str:
    """Return which fields of an answer were not asked for, or are missing in it."""
    data = answer.get("data") if isinstance(answer, dict) else None
    return "; ".join(_misshapen(_operation(parse(query)).selection_set, data, "data"))


def _wrong_variables(document: DocumentNode, given: Mapping[str, Any]) -> list[str]:
    named = _operation(document).variable_definitions or ()
    known = {each.variable.name.value for each in named}
    if unknown := sorted(set(given) - known):
        return [f"unknown variable {', '.join(unknown)}"]
    found = get_variable_values(_schema(), tuple(named), dict(given))
    return [error.message for error in found] if isinstance(found, list) else []


def _operation(document: DocumentNode) -> OperationDefinitionNode:
    (found,) = [each for each in document.definitions if isinstance(each, OperationDefinitionNode)]
    assert not any(isinstance(each, FragmentDefinitionNode) for each in document.definitions)
    return found


def _misshapen(asked: SelectionSetNode, told: Any, where: str) -> Iterator[str]:
    if isinstance(told, list):
        for each in told:
            yield from _misshapen(asked, each, where)
    if not isinstance(told, dict):
        return
    fields = dict(_fields(asked))
    yield from (f"{where}.{name} was not asked for" for name in told if name not in fields)
    for name, field in fields.items():
        if name not in told:
            yield f"{where}.{name} is missing"
        elif field.selection_set is not None:
            yield from _misshapen(field.selection_set, told[name], f"{where}.{name}")


def _fields(asked: SelectionSetNode) -> Iterator[tuple[str, FieldNode]]:
    for each in asked.selections:
        if isinstance(each, FieldNode):
            yield (each.alias or each.name).value, each
        else:
            assert isinstance(each, InlineFragmentNode)
            yield from _fields(each.selection_set)


def described() -> Path:
    """Return the folder with the schema, after fetching it if it is not there."""
    return cached(f"github-graphql-{INTEGRITY[:8].lower()}", _install)


@functools.cache
def _schema() -> GraphQLSchema:
    document = parse((described() / SCHEMA).read_text(), no_location=True)
    return build_ast_schema(document, assume_valid=True, assume_valid_sdl=True)


def _install(folder: Path) -> None:
    content = packed(folder, PACKAGE, INTEGRITY, f"package/{SCHEMA}")
    (folder / SCHEMA).write_bytes(content)
