"""Bodies of webhooks in which something is not as the forge says."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@st.composite
def mutated(draw: st.DrawFn, samples: list[dict[str, Any]]) -> Any:
    """Replace or take away something anywhere in a real payload."""
    body = json.loads(json.dumps(draw(st.sampled_from(samples))))
    at = body
    for _ in range(draw(st.integers(1, 3))):
        key = draw(st.sampled_from(sorted(at)))
        if isinstance(at[key], dict) and at[key] and draw(st.booleans()):
            at = at[key]
        elif draw(st.booleans()):
            at[key] = draw(ODD)
        elif len(at) > 1:
            del at[key]
    return body
