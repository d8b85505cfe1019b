"""Lifecycles from one store and clone to another: what `export` writes, and `import` goes on from.

Owns the document and what may be taken from it. Must not run a lifecycle.
"""
