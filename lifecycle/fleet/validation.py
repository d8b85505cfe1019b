"""Whether values are allowed, and all that is wrong with those that are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import ValidationError


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Whether something is allowed; `reason` says why not, `errors` names each fault."""

    valid: bool
    reason: str = ""
    errors: tuple[str, ...] = ()

    @classmethod
    def success(cls) -> Self:
        """Return the result of values without a fault."""
        return cls(valid=True)

    @classmethod
    def failure(cls, errors: Iterable[str]) -> Self:
        """Return the result of values with these faults."""
        found = tuple(errors)
        return cls(valid=False, reason="; ".join(found), errors=found)

    @property
    def is_valid(self) -> bool:
        """Whether there is no fault."""
        return self.valid


def faults_of(problem: ValidationError, whole: str = "value") -> tuple[str, ...]:
    """Return each fault with the field it is in; `whole` is what a fault of no field is in."""
    return tuple(
        f"{'.'.join(map(str, each['loc'])) or whole}: {each['msg']}, not {each['input']!r:.100}"
        for each in problem.errors()
    )
