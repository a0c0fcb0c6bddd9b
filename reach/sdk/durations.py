"""The public API speaks of seconds or timedelta; below it everything is int milliseconds. Converted once, here."""

import datetime as dt
import math

Duration = float | dt.timedelta
"""Seconds, or a timedelta."""

MAX_MS = 7 * 24 * 3600 * 1000


def to_ms(value: Duration, name: str, *, least: int = 1) -> int:
    """The duration in ms, rounded up to a whole one.

    Raises:
        ValueError: No finite number, below `least` ms, or over seven days.
    """
    seconds = value.total_seconds() if isinstance(value, dt.timedelta) else value
    if type(seconds) not in (int, float) or not math.isfinite(seconds):
        raise ValueError(f"{name} is {value!r}: seconds or a timedelta is wanted")
    ms = math.ceil(round(seconds * 1000, 6))
    if not least <= ms <= MAX_MS:
        raise ValueError(f"{name} is {ms} ms: at least {least} and at most {MAX_MS}")
    return ms


def maybe_ms(value: Duration | None, name: str, *, least: int = 1) -> int | None:
    """`to_ms`, and None stays None."""
    return None if value is None else to_ms(value, name, least=least)
