"""Values that are stored or published as JSON: their base class, and reading a stored one.

Must not know what any of them means.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ci.errors import ProviderError

Form = TypeVar("Form", bound=BaseModel)


class JsonModel(BaseModel):
    """A value that never changes."""

    model_config = ConfigDict(frozen=True)


def read_document(form: type[Form], collection: str, key: str, body: object) -> Form:
    """Return a document as its model; ProviderError says which one is damaged and what to do."""
    try:
        return form.model_validate(body)
    except ValidationError as fault:
        raise ProviderError(
            f"record {key} of {collection} is not readable ({fault.errors()[0]['msg']}); it was "
            "damaged or written by another version: repair it, or delete it to have it forgotten"
        ) from fault
