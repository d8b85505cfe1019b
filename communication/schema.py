"""The JSON schema of communications.json, for editors and for agents' authors.

Owns nothing but the wrapping of one entry's schema into the whole file's. Imports the models only
when asked.
"""

from __future__ import annotations

from typing import Any


def mailbox_schema() -> dict[str, Any]:
    """Build the JSON schema of a whole communications.json."""
    from communication.model import MailboxEntry  # noqa: PLC0415  # pydantic only when asked for

    entry = MailboxEntry.model_json_schema()
    definitions = entry.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "communications.json",
        "description": "One entry per agent id; `_meta` and unknown keys are kept as they are.",
        "type": "object",
        "properties": {"_meta": {"description": "Free for the file's owner; never read."}},
        "additionalProperties": {"$ref": "#/$defs/MailboxEntry"},
        "$defs": {**definitions, "MailboxEntry": entry},
    }
