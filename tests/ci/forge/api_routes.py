"""What a forge's description says of its routes, against which requests are held."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ApiRoutes:
    """By method and path (`_` for a name): parameters of the query, and fields of the body."""

    known: Mapping[str, tuple[str, str]]

    @cached_property
    def _patterns(self) -> Mapping[re.Pattern[str], tuple[str, str]]:
        return {
            re.compile(re.sub(r"(?<=/)_(?=/|$)", "[^/]+", route)): known
            for route, known in self.known.items()
        }

    def fault_of(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> str:
        """Return what the description has against a request; nothing if all is well."""
        asked = f"{method} {path}"
        found = next(
            (each for route, each in self._patterns.items() if route.fullmatch(asked)), None
        )
        if found is None:
            return f"{asked}: there is no such route"
        odd = [
            *(f"parameter {name}" for name in query if name not in found[0].split()),
            *(f"field {name}" for name in body or {} if name not in found[1].split()),
        ]
        return f"{asked}: unknown {', '.join(odd)}" if odd else ""
