"""How any CI that is no forge signs and words its webhooks: Standard Webhooks, or one HMAC header.

Owns the signatures, the documented JSON body of a check and what of CDEvents is understood. Must
not keep anything nor decide what a check means for a verdict (`ci.generic_commits`).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ci.checks import CheckState
from ci.events import Excerpt, clean_line
from ci.inbox import Hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SIMPLE = "x-loopwright-signature"
TOLERANCE = 300.0
"""Seconds that the signed time of a delivery may be away from ours."""
CHECK = "check"
_LOG_READ = 65_536
_TEXT_READ = 4_096
_URL_LIMIT = 2_000
_MILLISECONDS = 1e11
"""From here on a number is no time in seconds: that would be the year 5138."""
_SECRET_PREFIX = "whsec_"  # noqa: S105  # marks the form of a secret, is none
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
    """Tell whether one of the secrets signed exactly these bytes, lately if it says when."""
    # An empty secret is one that everybody knows.
    secrets = [secret for secret in secrets if secret]
    if "webhook-signature" in headers:
        return _signed_standard(headers, raw, secrets, now)
    algorithm, _, given = headers.get(SIMPLE, "").strip().partition("=")
    if algorithm != "sha256":
        return False
    wanted = [hmac.digest(secret.encode(), raw, "sha256").hex().encode() for secret in secrets]
    return _any_equal([given.lower().encode("utf-8", "replace")], wanted)


def _signed_standard(
    headers: Mapping[str, str], raw: bytes, secrets: Iterable[str], now: float
) -> bool:
    key, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not key or not re.fullmatch("[0-9]{1,12}", stamp) or abs(now - int(stamp)) > TOLERANCE:
        return False
    told = f"{key}.{stamp}.".encode("utf-8", "replace") + raw
    wanted = [
        base64.b64encode(hmac.digest(each, told, "sha256"))
        for secret in secrets
        for each in _keys(secret)
    ]
    given = [
        value.encode("utf-8", "replace")
        for version, _, value in (
            entry.partition(",") for entry in headers["webhook-signature"].split()
        )
        if version == "v1"
    ]
    return _any_equal(given, wanted)


def _keys(secret: str) -> list[bytes]:
    """Return the keys that a secret may mean: its base64 after `whsec_`, else its own text."""
    if not secret.startswith(_SECRET_PREFIX):
        return [secret.encode()]
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return [secret.encode()]
    # Without a key anybody could sign.
    return [key] if key else []


def _any_equal(given: Sequence[bytes], wanted: Sequence[bytes]) -> bool:
    # All pairs are compared to the end, so that the time tells nothing.
    return any([hmac.compare_digest(one, other) for one in given for other in wanted])  # noqa: C419  # as said


# --- what a delivery is about ---------------------------------------------------------------------


def identity(headers: Mapping[str, str], raw: bytes) -> str:
    """Return the sender's id of the delivery; nothing if it gives none, or none that is signed."""
    del raw
    return headers.get("webhook-id", "") if "webhook-signature" in headers else ""


def event(headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Return what the sender calls it; a body that names nothing is a check."""
    del headers
    kind = _cdevent_type(body)
    return clean_line(kind or str(body.get("event") or CHECK))


def hint(headers: Mapping[str, str], body: Mapping[str, Any]) -> Hint | None:
    """Return which commit to look at; None for what tells of no check."""
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
        raise ValueError(f"`at` is {clean_line(_text(value))!r}, which is no time")
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


class ReportedCheck(BaseModel):
    """What somebody reported of one check of one commit."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    sha: Annotated[str, BeforeValidator(_sha)]
    branch: Annotated[str, BeforeValidator(_text), AfterValidator(_branch)] = ""
    name: Annotated[str, BeforeValidator(_text), AfterValidator(_name)] = "ci"
    status: Annotated[str, BeforeValidator(_state)]
    """The sender's word for it."""
    summary: Line = ""
    log: Annotated[Excerpt, BeforeValidator(_end)] = ""
    """The end of what it printed."""
    url: Annotated[str, BeforeValidator(_text), AfterValidator(_web)] = ""
    at: Annotated[float | None, BeforeValidator(_instant)] = None
    number: Annotated[int | None, Field(ge=0, lt=2**53)] = None
    """Counts the runs of the check, where the sender knows that; it then decides what is newer."""

    @property
    def state(self) -> CheckState:
        """What it means."""
        return _STATE_OF[self.status]


def check_of(body: Mapping[str, Any], *, sha: str = "") -> ReportedCheck:
    """Return the check that a body tells of; ValueError says what is wrong with it.

    `sha` stands for one that the body does not name.
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
    """Return the body in our own words, if it is a CDEvent of a run."""
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
