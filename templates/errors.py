"""Errors of the templates package. Must hold no logic."""


class TemplateError(Exception):
    """A template cannot be found, read or rendered; the text names file, line and remedy."""
