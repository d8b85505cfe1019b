"""The forms that the values of settings have: which is a list, what a number may be, in words.

Reads the fields of the model alone. Must not know where a value comes from.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from lifecycle.settings import Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

ENTRIES = ("notify",)
"""Lists of tables."""
_FORMS = (("dict", "a table"), ("tuple", "a list of texts"), ("str", "a text"))


def allowed_values(name: str) -> str:
    """Say in words what a setting may be."""
    field = Settings.model_fields[name]
    kind = str(field.annotation)
    flags = ["true", "false"] if takes_bool(name) else []
    choices = re.findall(r"'(\w+)'", kind) if "Literal" in kind else []
    if flags or choices:
        return " or ".join([*flags, *choices])
    if name in ENTRIES:
        return f"a list of tables, each written as [[{name}]]"
    for part, words in _FORMS:
        if part in kind:
            return words
    noun = "a whole number" if "int" in kind else "a number"
    return noun + _range_of(field)


def takes_bool(name: str) -> bool:
    """Tell whether a setting is true or false."""
    return "bool" in str(Settings.model_fields[name].annotation)


def not_finite(text: str) -> bool:
    """Tell whether a text is no number that can be counted with."""
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


def is_list(name: str) -> bool:
    """Tell whether a setting is a list."""
    field = Settings.model_fields.get(name)
    return field is not None and "tuple" in str(field.annotation)


def is_table(name: str) -> bool:
    """Tell whether a setting is a table."""
    field = Settings.model_fields.get(name)
    return field is not None and "dict" in str(field.annotation)


def _range_of(field: FieldInfo) -> str:
    bounds: dict[str, Any] = {}
    for rule in field.metadata:
        for word in ("ge", "gt", "le", "lt"):
            if (bound := getattr(rule, word, None)) is not None:
                bounds[word] = f"{bound:g}" if isinstance(bound, float) else str(bound)
    low = f" from {bounds['ge']}" if "ge" in bounds else ""
    low = f" above {bounds['gt']}" if "gt" in bounds else low
    high = f" to {bounds['le']}" if "le" in bounds else ""
    return low + high
