"""The public API speaks of seconds or timedelta; below it everything is int milliseconds. Converted once, here."""

import datetime as dt
import math

Duration = float | dt.timedelta
"""Seconds, or a timedelta."""

Moment = float | dt.datetime
"""Unix seconds, or a datetime with a time zone."""

MAX_MS = 7 * 24 * 3600 * 1000
MAX_MOMENT_S = 7_258_118_400  # the year 2200: what lies behind is ms or ns that were meant


def to_ms(value: Duration, name: str, *, least: int = 1) -> int:
    """The duration in ms, rounded up to a whole one.

    Raises:
        ValueError: No finite number, below `least` ms, or over seven days.
    """
    seconds = value.total_seconds() if isinstance(value, dt.timedelta) else value
    if type(seconds) not in (int, float) or (type(seconds) is float and math.isnan(seconds)):
        raise ValueError(f"{name} is {value!r}: seconds or a timedelta is wanted")
    # Compared before it is counted with, and not shown: an int may be too large for a float, and for a text.
    if seconds > MAX_MS / 1000:
        raise ValueError(f"{name} is too long: at most {MAX_MS} ms, which is seven days")
    ms = math.ceil(round(seconds * 1000, 6)) if seconds > 0 else 0
    if ms < least or seconds < 0:
        raise ValueError(f"{name} is too short: at least {least} ms")
    return ms


def moment_ms(value: Moment, name: str) -> int:
    """The moment in Unix ms.

    Raises:
        ValueError: No moment, before 1970 or after 2200, or a datetime without a time zone.
    """
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise ValueError(
                f"{name} is {value!r}, which has no time zone: say datetime.now(UTC) + ..., or Unix seconds"
            )
        value = value.timestamp()
    if type(value) not in (int, float):
        raise ValueError(f"{name} is {value!r}: Unix seconds or a datetime is wanted")
    if not 0 <= value <= MAX_MOMENT_S:  # NaN neither; not shown, since an int may be too large for a text
        raise ValueError(f"{name} is no moment: Unix seconds from 0 to {MAX_MOMENT_S} are wanted")
    return math.ceil(round(value * 1000, 6))


def maybe_ms(value: Duration | None, name: str, *, least: int = 1) -> int | None:
    """`to_ms`, and None stays None."""
    return None if value is None else to_ms(value, name, least=least)
