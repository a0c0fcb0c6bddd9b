"""What is no record is counted in the log, all of it."""

import logging

import pytest

from reach.events.junk import Junk
from reach.log import SAME_EVERY_MS, event_log
from reach.testing import ManualClock


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, int, str]]:
    return [
        (one.__dict__["of"], one.__dict__["batches"], one.__dict__["records"], one.__dict__["first"])
        for one in caplog.records
    ]


def test_each_is_counted_once_and_the_first_is_named(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    junk = Junk(event_log("reach.events"), clock)
    with caplog.at_level(logging.WARNING):
        junk.tell()
        for number in range(16):
            junk.add(0, f"{number}-0", None, "it is no batch")
        junk.add(1, "7-0", 3, "it is no object")
        junk.tell()
        assert said(caplog) == [("0", 16, 0, "0-0"), ("1", 0, 1, "7-0/3")]
        caplog.clear()
        junk.add(0, "20-0", None, "it is no batch")
        junk.add(0, "21-0", 0, "it is no object")
        junk.tell()
        assert said(caplog) == [], "it is said once in a while"
        clock.advance(SAME_EVERY_MS)
        junk.tell()
        junk.tell()
        assert said(caplog) == [("0", 1, 1, "20-0")]
        caplog.clear()
        junk.add(0, "22-0", 0, "it is no object")
        junk.tell()
        junk.tell(last=True)
        junk.tell(last=True)
        assert said(caplog) == [("0", 0, 1, "22-0/0")]
