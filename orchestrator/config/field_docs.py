"""What the fields of our models mean, read off the texts below them.

So that a settings file, a schema and the code can never say different things.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap


def field_docs(model: type) -> dict[str, str]:
    """Return the text that stands below each field of a class and its bases, on one line."""
    docs: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each.__module__.partition(".")[0] in {"builtins", "pydantic", "typing"}:
            continue
        docs |= _own(each)
    return docs


def _own(model: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    docs = {}
    for field, below in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            docs[field.target.id] = " ".join(below.value.value.split())
    return docs
