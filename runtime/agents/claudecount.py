"""What Claude Code tells of tokens and money, in events of the model and in its results.

Pure. It must not add up what several results tell: who reads them does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.agents import fields as f
from runtime.agents.events import Usage
from runtime.agents.outcome import Scope, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def tokens_of(usage: Mapping[str, object]) -> Tokens:
    """Return what one answer took, as the provider counts it."""
    fields = dict(usage)
    read = f.count(fields, "cache_read_input_tokens")
    made = f.count(fields, "cache_creation_input_tokens")
    plain, out = f.count(fields, "input_tokens"), f.count(fields, "output_tokens")
    thought = f.count(f.section(fields, "output_tokens_details"), "thinking_tokens")
    return Tokens(plain, out, read, thought, plain + out + read + made)


def usages(fields: f.Fields) -> Iterator[Usage]:
    """Return what was used and cost since the result before; of older ones the session's cost."""
    since = fields.get("model_usage_since_last_result")
    if isinstance(since, dict):
        per_model = [each for each in since.values() if isinstance(each, dict)]
        tokens = sum((_of_model(each) for each in per_model), Tokens())
        yield Usage(Scope.RUN, tokens, sum(f.amount(each, "costUSD") or 0.0 for each in per_model))
        return
    if usage := f.section(fields, "usage"):
        yield Usage(Scope.RUN, tokens_of(usage))
    if (cost := f.amount(fields, "total_cost_usd")) is not None:
        yield Usage(Scope.SESSION, None, cost)


def _of_model(each: f.Fields) -> Tokens:
    plain, out = f.count(each, "inputTokens"), f.count(each, "outputTokens")
    read, made = f.count(each, "cacheReadInputTokens"), f.count(each, "cacheCreationInputTokens")
    return Tokens(plain, out, read, f.count(each, "thinkingTokens"), plain + out + read + made)
