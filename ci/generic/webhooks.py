"""Webhooks of CI without a forge: Standard Webhooks, or one HMAC header.

Owns the signatures, the documented JSON body of a check and the supported part of CDEvents. Must
not store anything nor decide what a check means for a verdict (`ci.generic.reports`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from ci.events import CheckState, Excerpt, clean_line
from ci.json_model import JsonModel
from ci.webhook_delivery import Hint
from ci.webhooks.signatures import STANDARD, is_signed, is_standard_signed, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADERS = frozenset({"webhook-id", "webhook-timestamp", "idempotency-key"})
EVENT_HEADER = ""
SIMPLE = "x-loopwright-signature"
TOLERANCE = 300.0
"""Seconds by which the signed time of a delivery may differ from ours."""
CHECK = "check"
_LOG_READ = 65_536
_TEXT_READ = 4_096
_URL_LIMIT = 2_000
_MILLISECONDS = 1e11
"""From here on a number is in milliseconds: as seconds it would be the year 5138."""
_CDEVENT = re.compile(r"dev\.cdevents\.(pipelinerun|taskrun)\.(queued|started|finished)(\..*)?")

_STATES = {
    CheckState.PASSED: "passed pass success successful succeeded ok green fixed neutral skipped",
    CheckState.FAILED: (
        "failed fail failure error errored red broken unstable cancelled canceled cancel aborted "
        "timed_out timeout startup_failure action_required stale not_built"
    ),
    CheckState.PENDING: (
        "pending queued requested scheduled waiting blocked created started running in_progress"
    ),
}
_STATE_OF = {word: state for state, words in _STATES.items() for word in words.split()}


# --- signatures -----------------------------------------------------------------------------------


def signed(headers: Mapping[str, str], raw: bytes, secrets: Sequence[str], *, now: float) -> bool:
    """Return whether one of the secrets signed these bytes, recently if the time is signed."""
    if STANDARD in headers:
        return _is_fresh(headers, now) and is_standard_signed(headers, raw, map(_key, secrets))
    algorithm, _, given = headers.get(SIMPLE, "").strip().partition("=")
    return algorithm == "sha256" and is_signed(given, raw, secrets)


def _is_fresh(headers: Mapping[str, str], now: float) -> bool:
    stamp = headers.get("webhook-timestamp", "")
    return bool(re.fullmatch("[0-9]{1,12}", stamp)) and abs(now - int(stamp)) <= TOLERANCE


def _key(secret: str) -> bytes:
    """Return the key that a secret means: its base64 after `whsec_`, else its own text."""
    key = key_of(secret)
    return secret.encode() if key is None else key


# --- what a delivery is about ---------------------------------------------------------------------


def identity(headers: Mapping[str, str], raw: bytes) -> str:
    """Return the sender's signed id of the delivery; empty if there is none."""
    del raw
    return headers.get("webhook-id", "") if "webhook-signature" in headers else ""


def event(headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Return the sender's name of the event; a body without one is a check."""
    del headers
    kind = _cdevent_type(body)
    return clean_line(kind or str(body.get("event") or CHECK))


def hint(headers: Mapping[str, str], body: Mapping[str, Any]) -> Hint | None:
    """Return which commit to check; None for events that are not about a check."""
    name = event(headers, body)
    if name != CHECK and not _CDEVENT.fullmatch(name):
        return None
    told = _plain(body)
    repo, branch, sha = (_text(told.get(key)) for key in ("repo", "branch", "sha"))
    return Hint(
        repo=clean_line(repo), branch=_branch(branch), sha=clean_line(sha).lower(), event=name
    )


# --- a check --------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return "" if value is None else str(value)[:_TEXT_READ]


def _end(value: object) -> str:
    return "" if value is None else str(value)[-_LOG_READ:]


def _branch(value: str) -> str:
    return clean_line(value).removeprefix("refs/heads/")


def _name(value: str) -> str:
    name = clean_line(value)
    if not name:
        raise ValueError("a check needs a name")
    return name


def _web(value: str) -> str:
    # It becomes a link on pages of ours.
    fits = re.fullmatch(r"https?://[\x21-\x7e]+", value) and len(value) <= _URL_LIMIT
    return value if fits else ""


def _sha(value: object) -> str:
    sha = _text(value).strip().lower()
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", sha):
        raise ValueError(
            "`sha` is not the full hash of a commit (40 or 64 hexadecimal digits): "
            f"{clean_line(sha)[:70]!r}"
        )
    return sha


def _state(value: object) -> str:
    word = re.sub("[ -]", "_", clean_line(_text(value)).lower())
    if word not in _STATE_OF:
        raise ValueError(f"`status` is {word!r}: use passed, failed or pending")
    return word


def _instant(value: object) -> float | None:
    if value is None or value == "":
        return None
    try:
        at = float(value)  # type: ignore[arg-type]  # what is no number is told below
    except (TypeError, ValueError):
        at = _date(_text(value))
    except OverflowError:
        at = float("inf")
    at = at / 1000 if at >= _MILLISECONDS else at
    if not 0 <= at < _MILLISECONDS:
        raise ValueError(f"`at` is {clean_line(_text(value))!r}, which is not a valid time")
    return at


def _date(text: str) -> float:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"`at` is {clean_line(text)!r}: use RFC 3339 or seconds since 1970"
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


Line = Annotated[str, BeforeValidator(_text), AfterValidator(clean_line)]


class ReportedCheck(JsonModel):
    """One reported check of one commit."""

    sha: Annotated[str, BeforeValidator(_sha)]
    branch: Annotated[str, BeforeValidator(_text), AfterValidator(_branch)] = ""
    name: Annotated[str, BeforeValidator(_text), AfterValidator(_name)] = "ci"
    status: Annotated[str, BeforeValidator(_state)]
    """The sender's word for the state."""
    summary: Line = ""
    log: Annotated[Excerpt, BeforeValidator(_end)] = ""
    """The end of what it printed."""
    url: Annotated[str, BeforeValidator(_text), AfterValidator(_web)] = ""
    at: Annotated[float | None, BeforeValidator(_instant)] = None
    number: Annotated[int | None, Field(ge=0, lt=2**53)] = None
    """The run number of the check, if the sender knows it; it then decides which is newer."""

    @property
    def state(self) -> CheckState:
        """What it means."""
        return _STATE_OF[self.status]


def check_of(body: Mapping[str, Any], *, sha: str = "") -> ReportedCheck:
    """Return the check in a body; ValueError says what is wrong with it.

    `sha` is used if the body names none.
    """
    told = _plain(body)
    try:
        return ReportedCheck.model_validate({**told, "sha": told.get("sha") or sha})
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        what = first["msg"].removeprefix("Value error, ")
        where = "" if what.startswith("`") else f"`{'.'.join(map(str, first['loc']))}`: "
        raise ValueError(f"{where}{what}") from None


def _cdevent_type(body: Mapping[str, Any]) -> str:
    context = body.get("context")
    return _text(context.get("type")) if isinstance(context, dict) else ""


def _plain(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body in our own form, if it is a CDEvent of a run."""
    found = _CDEVENT.fullmatch(_cdevent_type(body))
    if not found:
        return body
    subject = _inner(body, "subject")
    content = _inner(subject, "content")
    custom = _inner(body, "customData")
    finished = found[2] == "finished"
    return {
        "name": content.get("pipelineName") or content.get("taskName") or subject.get("id") or "ci",
        "status": content.get("outcome") if finished else found[2],
        "summary": content.get("errors"),
        "url": content.get("url") or content.get("uri"),
        "at": body["context"].get("timestamp"),
        **{key: custom.get(key) for key in ("repo", "sha", "branch", "log", "number")},
    }


def _inner(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = body.get(key)
    return found if isinstance(found, dict) else {}
