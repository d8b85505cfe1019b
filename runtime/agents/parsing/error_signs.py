"""What the words, codes and statuses of model providers' errors mean.

Owns the tables. It must only be given what a program says of its own failure, never what an agent
says: agents talk about rate limits and authorisation all day.
"""

from __future__ import annotations

import re

from runtime.agents.outcome import Ending

CODES: dict[str, Ending] = {
    "rate_limit": Ending.RATE_LIMIT,
    "rate_limit_error": Ending.RATE_LIMIT,
    "rate_limit_exceeded": Ending.RATE_LIMIT,
    "usage_limit_reached": Ending.RATE_LIMIT,
    "resource_exhausted": Ending.RATE_LIMIT,
    "insufficient_quota": Ending.QUOTA,
    "quota_exceeded": Ending.QUOTA,
    "quota": Ending.QUOTA,
    "billing_error": Ending.BILLING,
    "billing_not_active": Ending.BILLING,
    "billing_hard_limit_reached": Ending.BILLING,
    "authentication": Ending.AUTH,
    "authentication_error": Ending.AUTH,
    "authentication_failed": Ending.AUTH,
    "authorization": Ending.AUTH,
    "invalid_api_key": Ending.AUTH,
    "oauth_org_not_allowed": Ending.AUTH,
    "permission_error": Ending.AUTH,
    "permission_denied": Ending.AUTH,
    "unauthenticated": Ending.AUTH,
    "overloaded": Ending.OVERLOADED,
    "overloaded_error": Ending.OVERLOADED,
    "server_is_overloaded": Ending.OVERLOADED,
    "slow_down": Ending.OVERLOADED,
    "unavailable": Ending.OVERLOADED,
    "connection_failed": Ending.NETWORK,
    "context_length_exceeded": Ending.CONTEXT_OVERFLOW,
    "context_limit": Ending.CONTEXT_OVERFLOW,
    "request_too_large": Ending.CONTEXT_OVERFLOW,
    "model_not_found": Ending.MODEL,
    "not_found_error": Ending.MODEL,
    "content_filter": Ending.REFUSED,
    "content_policy_violation": Ending.REFUSED,
    "invalid_prompt": Ending.REFUSED,
}
_STATUSES: dict[int, Ending] = {
    401: Ending.AUTH,
    402: Ending.BILLING,
    403: Ending.AUTH,
    404: Ending.MODEL,
    407: Ending.NETWORK,
    408: Ending.NETWORK,
    413: Ending.CONTEXT_OVERFLOW,
    429: Ending.RATE_LIMIT,
}
_SERVER_ERRORS = range(500, 600)
_TELLING: tuple[tuple[Ending, str], ...] = (
    (
        Ending.CONTEXT_OVERFLOW,
        (
            r"context_length_exceeded|prompt is too long|input is too long|context window|"
            r"maximum context|context (?:length|limit)|prompt as too long|exceeds the maximum "
            r"number of tokens|too many (?:input )?tokens|reduce the length of the"
        ),
    ),
    (
        Ending.BILLING,
        (
            r"credit balance|billing_(?:not_active|error|hard)|payment required|insufficient "
            r"(?:funds|credit|balance)|out of credits|billing (?:is )?not active"
        ),
    ),
    (
        Ending.QUOTA,
        (
            r"insufficient_quota|quota exceeded|exceeded your (?:current|daily|monthly) quota|"
            r"daily quota|exhausted your (?:\w+ )?(?:quota|capacity)|QuotaError|premium requests?"
        ),
    ),
    (
        Ending.RATE_LIMIT,
        (
            r"usage.limit|rate.?limit|\b429\b|too many requests|hit your [\w -]*limit|"
            r"limit reached\|\d|RESOURCE_EXHAUSTED"
        ),
    ),
    (
        Ending.MODEL,
        (
            r"model_not_found|^model: \S+$|(?:unknown|unsupported|invalid|no such) model\b|"
            r"issue with the selected model|model\b.{0,80}(?:not (?:found|exist|supported|"
            r"available)|does not exist|not a valid)|ModelNotFound"
        ),
    ),
    (
        Ending.AUTH,
        (
            r"\b401\b|\b403\b|unauthori[sz]ed|invalid (?:x-)?api.?key|incorrect api key|"
            r"authentication|unauthenticated|not logged in|please (?:run /|re)?log.?in|/login\b|"
            r"(?:token|session|credentials?) (?:has |have )?expired|invalid auth|no api key|"
            r"(?:set|missing) (?:the |an? )?\w*API_KEY|auth method|invalid_grant|"
            r"PERMISSION_DENIED|no authentication information"
        ),
    ),
    (
        Ending.OVERLOADED,
        (
            r"overloaded|\b5(?:0[0234]|2[0-9])\b|internal server error|service unavailable|"
            r"bad gateway|gateway timeout|at capacity|high demand|server_error|UNAVAILABLE"
        ),
    ),
    (
        Ending.NETWORK,
        (
            r"stream (?:disconnected|closed|error)|connection (?:refused|reset|failed|error|closed|"
            r"timed out)|connect error|E(?:CONN\w+|NOTFOUND|TIMEDOUT|AI_AGAIN|HOSTUNREACH|"
            r"NETUNREACH|PIPE)\b|fetch failed|error sending request|(?:un|not )able to connect|"
            r"cannot connect|network (?:error|is unreachable)|waiting for network|socket hang up|"
            r"dns error|name resolution|getaddrinfo|premature close|request timed out|"
            r"certificate|empty response"
        ),
    ),
    (
        Ending.REFUSED,
        (
            r"content.?(?:filter|policy)|usage polic|safety (?:polic|reason|filter|settings)|"
            r"flagged (?:as|for)|violat\w+ (?:our|the) \w* ?polic"
        ),
    ),
    (Ending.MAX_TURNS, r"max(?:imum)?\w*.(?:number of |session )?turns|turn limit|TurnLimited"),
    (Ending.BUDGET, r"maximum budget|max.budget|budget (?:exceeded|exhausted)"),
    (
        Ending.ENVIRONMENT,
        (
            r"no space left|E(?:NOSPC|ROFS|MFILE|NFILE)\b|read-only file system|native binary not "
            r"installed|cannot find module|GLIBC|root/sudo privileges|exec format error|bwrap:"
        ),
    ),
)
_SIGNS = tuple(
    (ending, re.compile(words, re.IGNORECASE | re.MULTILINE)) for ending, words in _TELLING
)
_EARLY = tuple(
    each for each in _SIGNS if each[0] in (Ending.CONTEXT_OVERFLOW, Ending.BILLING, Ending.QUOTA)
)
_SOON = re.compile(r"per.?minute|per.?second", re.IGNORECASE)
"""Some providers call what passes in a minute a quota too."""
_ROOM = 4000
_LAST_LINES = 40


def by_status(status: int | None) -> Ending | None:
    """Tell what an HTTP status means by itself; None if that is open, as for 400."""
    if status is None:
        return None
    return Ending.OVERLOADED if status in _SERVER_ERRORS else _STATUSES.get(status)


def by_words(message: str) -> Ending | None:
    """Tell what an error message of a program or a provider means."""
    return next((ending for ending, sign in _SIGNS if sign.search(message[:_ROOM])), None)


def judged(message: str, status: int | None = None, code: str = "") -> Ending | None:
    """Tell what an error is: by its code, by words that say more than a status, by the status.

    Providers send a full context, a missing payment and a used-up quota under statuses that mean
    other things too.
    """
    by_code = CODES.get(code.lower())
    told = next((ending for ending, sign in _EARLY if sign.search(message[:_ROOM])), None)
    if told is Ending.QUOTA and _SOON.search(message[:_ROOM]):
        told = Ending.RATE_LIMIT
    if by_code is not None and by_code not in (Ending.RATE_LIMIT, Ending.MODEL):
        return by_code
    return told or by_code or by_status(status) or by_words(message)


def by_last_lines(said: str) -> tuple[Ending | None, str]:
    """Judge what a failed run wrote to standard error: its last line that means something.

    Also returns that line; without one, the last line there is.
    """
    lines = [line.strip() for line in said[-4 * _ROOM :].splitlines() if line.strip()]
    for line in reversed(lines[-_LAST_LINES:]):
        if (ending := by_words(line)) is not None:
            return ending, line
    return None, lines[-1] if lines else ""
