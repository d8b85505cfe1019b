"""Errors of the orchestrator package."""


class OrchestratorError(Exception):
    """Anything this package raises on purpose; the text says what, where and what to do."""


class ConfigError(OrchestratorError):
    """A settings file, variable or option is wrong; the text names file and line, or name."""
