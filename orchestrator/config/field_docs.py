"""What the fields of our models mean, read off the texts below them.

So that a settings file, a schema and the code can never say different things.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys


def field_docs(model: type) -> dict[str, str]:
    """Return the text that stands below each field of a class and its bases, on one line."""
    docs: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each.__module__.partition(".")[0] in {"builtins", "pydantic", "typing"}:
            continue
        docs |= _own(each)
    return docs


def _own(model: type) -> dict[str, str]:
    return _below_fields(model.__module__)[model.__name__]


@functools.cache
def _below_fields(module: str) -> dict[str, dict[str, str]]:
    """Read a module once, for all of its classes."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _texts(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _texts(model: ast.ClassDef) -> dict[str, str]:
    docs = {}
    for field, below in itertools.pairwise(model.body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            docs[field.target.id] = " ".join(below.value.value.split())
    return docs
