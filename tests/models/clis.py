"""How each real coding agent is led to a scripted model, as a user would set it up.

An empty environment with a made-up key, unattended, settings in files below a private home.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ("claude", "codex", "gemini", "opencode")


@dataclass(frozen=True)
class Order:
    """How a program is started."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts to write below the home."""


def order(name: str, url: str, key: str) -> Order:
    """Return how the program is started, without the home."""
    return {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}[name](
        url, key
    )


def _claude(url: str, key: str) -> Order:
    flags = ("--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions")
    return Order(
        ("claude", "-p", *flags),
        {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "ENABLE_TOOL_SEARCH": "false",
            # As root it works without asking only where it is told that nothing can be harmed.
            "IS_SANDBOX": "1",
        },
    )


def _codex(url: str, key: str) -> Order:
    provider = (
        f'{{name="scripted",base_url="{url}/v1",env_key="SCRIPTED_KEY",wire_api="responses",'
        "request_max_retries=1,stream_max_retries=1}"
    )
    settings = ('model_provider="scripted"', f"model_providers.scripted={provider}")
    unattended = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    return Order(
        (
            *("codex", "exec", "--json", *unattended, "-m", "gpt-5.1-codex"),
            *(word for each in settings for word in ("-c", each)),
            "-",
        ),
        {"SCRIPTED_KEY": key},
        # It looks for plugins and sends figures to its makers otherwise.
        {".codex/config.toml": "[analytics]\nenabled = false\n[features]\nplugins = false\n"},
    )


def _gemini(url: str, key: str) -> Order:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "maxAttempts": 1},
    }
    return Order(
        ("gemini", "--yolo", "--output-format", "stream-json", "-m", "gemini-2.5-pro"),
        {
            "GEMINI_API_KEY": key,
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
        {".gemini/settings.json": json.dumps(settings)},
    )


def _opencode(url: str, key: str) -> Order:
    limit = {"context": 200000, "output": 8000}
    cost = {"input": 1, "output": 2, "cache_read": 0.1, "cache_write": 1}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": key},
        "models": {"m1": {"limit": limit, "cost": cost}},
    }
    config: dict[str, Any] = {
        "provider": {"scripted": provider},
        "permission": {"*": "allow"},
        "autoupdate": False,
        "share": "disabled",
    }
    return Order(
        ("opencode", "run", "--format", "json", "-m", "scripted/m1"),
        {
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            # It fetches a list of models and a plugin package otherwise.
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "npm_config_offline": "true",
        },
    )
