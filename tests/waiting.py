"""Wait for a condition, never for a time: for tests that are not coroutines (those have reach.testing.wait_until)."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], within_s: float = 5.0, what: str = "") -> T:
    """The first true answer of `check`; fails when there is none in time."""
    end = time.monotonic() + within_s
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() >= end:
            raise AssertionError(
                f"{what or check} did not come about within {within_s} s; the last answer was {answer!r}"
            )
        time.sleep(0.005)
