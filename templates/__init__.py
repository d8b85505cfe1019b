"""Turns recorded facts into the texts an agent reads: the summary and the prompt.

Nouns: *values* (plain dicts, lists, strings), *template* (`*.md.j2`, ours or the user's own),
*fence* (the marked lines around text we did not write), *level* (how tightly values are trimmed).
Flow: values -> `size_budget.trim` -> `renderer.Renderer.render` (fences and quotes) -> Markdown.
Must not know lifecycles.
"""
