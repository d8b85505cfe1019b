"""Turns recorded facts into the texts an agent reads: the summary and the prompt.

Nouns: *values* (plain dicts, lists, strings), *template* (`*.md.j2`, ours or the user's own),
*fence* (the marked box around text we did not write), *level* (how tightly values are trimmed).
Flow: values -> `budget.trim` -> `renderer.Renderer.render` (which fences and quotes) -> Markdown.
"""
