"""A small checker of JSON values against the schemas we publish; knows the words they use."""

from __future__ import annotations

from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


def faults(
    schema: dict[str, Any], value: Any, at: str = "$", defs: dict[str, Any] | None = None
) -> list[str]:
    """Return what does not fit, with its place."""
    defs = schema.get("$defs", {}) if defs is None else defs
    if "$ref" in schema:
        schema = defs[schema["$ref"].removeprefix("#/$defs/")]
    if either := schema.get("oneOf") or schema.get("anyOf"):
        tried = [faults(each, value, at, defs) for each in either]
        return [] if any(not each for each in tried) else min(tried, key=len)
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: {value!r} is none of {schema['enum']}")
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    fits = [
        isinstance(value, _TYPES[kind]) and (isinstance(value, bool) <= (kind == "boolean"))
        for kind in kinds
    ]
    if kinds and not any(fits):
        return [*found, f"{at}: {value!r} is no {kinds}"]
    if isinstance(value, dict):
        found += [f"{at}: no {name}" for name in schema.get("required", ()) if name not in value]
        for name, each in schema.get("properties", {}).items():
            if name in value:
                found += faults(each, value[name], f"{at}.{name}", defs)
    if isinstance(value, list) and "items" in schema:
        for number, each in enumerate(value):
            found += faults(schema["items"], each, f"{at}[{number}]", defs)
    return found
