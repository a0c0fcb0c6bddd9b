"""What a provider says when it wants to be asked later: read from the exception of whatever client library the handler uses. Pure.

No library is needed for it: what carries an HTTP answer has a status and headers, as an attribute `response` (httpx.HTTPStatusError,
requests.HTTPError, RateLimitError of openai and of anthropic) or itself (aiohttp.ClientResponseError, urllib.error.HTTPError).
"""

import datetime as dt
import math
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from reach.sdk.durations import MAX_MS

#: too many requests, not available now, overloaded
LATER = frozenset({429, 503, 529})
_STATUS = ("status_code", "status", "code")
_LEAST_STATUS, _MOST_STATUS = 100, 599


class Told(NamedTuple):
    """The HTTP status that an exception carries, and the wait that it asks for in ms; None = it says nothing of it."""

    status: int | None = None
    after_ms: int | None = None


def told_by(error: BaseException, now_ms: int) -> Told:
    """What the provider behind an exception has said.

    Args:
        error: What the handler has raised.
        now_ms: Unix ms, for a moment in an answer that has no `Date` of its own to count from.
    """
    try:
        return _told(error, now_ms)
    except Exception:  # noqa: BLE001 - the attributes of somebody else's exception may do anything
        return Told()


def _told(error: BaseException, now_ms: int) -> Told:
    for holder in (getattr(error, "response", None), error):
        headers = getattr(holder, "headers", None)
        status = next((s for name in _STATUS if type(s := getattr(holder, name, None)) is int), None)
        if headers is None or status is None or not _LEAST_STATUS <= status <= _MOST_STATUS:
            continue
        return Told(status, _after_ms(headers, now_ms) if status in LATER else None)
    return Told()


def _after_ms(headers: Any, now_ms: int) -> int | None:
    in_ms = _number(_header(headers, "retry-after-ms"))
    if in_ms is not None:
        return _bounded(in_ms)
    text = _header(headers, "retry-after")
    in_s = _number(text)
    if in_s is not None:
        return _bounded(in_s * 1000)
    at_ms = _moment_ms(text)
    if at_ms is None:
        return None
    answered_ms = _moment_ms(_header(headers, "date"))
    return _bounded(at_ms - (now_ms if answered_ms is None else answered_ms))


def _header(headers: Any, name: str) -> str:
    """By any spelling that libraries keep: most of them ask for no case, a plain dict does."""
    for spelling in (name, name.title()):
        value = headers.get(spelling)
        if value is not None:
            return value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return ""


def _number(text: str) -> float | None:
    """A count as headers have it: digits, perhaps with a fraction."""
    whole, _, part = text.strip().partition(".")
    digits = whole + part
    return float(text) if whole and len(digits) <= 20 and digits.isascii() and digits.isdigit() else None


def _moment_ms(text: str) -> int | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return round((at if at.tzinfo is not None else at.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def _bounded(ms: float) -> int:
    return math.ceil(min(max(ms, 0), MAX_MS))
