"""Log lines: one JSON object each, whatever is logged."""

import json
import logging
import sys
from typing import Any

from reach_worker.logs import ConsoleFormatter, JsonFormatter


def record(message: str, **extra: Any) -> logging.LogRecord:
    made = logging.makeLogRecord({"msg": message, "name": "reach.router", "levelname": "INFO", "created": 1.25})
    made.__dict__.update(extra)
    return made


def test_fields_stand_beside_the_event() -> None:
    line = json.loads(JsonFormatter().format(record("claimed", partition=3, count=2)))
    assert line == {
        "at": 1.25,
        "level": "info",
        "logger": "reach.router",
        "event": "claimed",
        "partition": 3,
        "count": 2,
    }


def test_an_exception_is_told_and_stays_on_one_line() -> None:
    try:
        raise ValueError("bug\nwith a newline")
    except ValueError:
        made = record("failed")
        made.exc_info = sys.exc_info()
    text = JsonFormatter().format(made)
    assert "\n" not in text
    assert "ValueError: bug" in json.loads(text)["exception"]


def test_nothing_that_is_logged_makes_it_fail() -> None:
    hostile = {"a": "\ud800", "b": 2**70, "c": object(), "d": b"\xff", "e": {1: {2}}, "f": float("nan")}
    line = json.loads(JsonFormatter().format(record("odd \udfff", **hostile)))
    assert "odd" in line["event"]
    assert set(hostile) <= line.keys()
    ConsoleFormatter().format(record("odd \udfff", **hostile)).encode()


def test_people_get_one_plain_line() -> None:
    line = ConsoleFormatter().format(record("claimed", partition=3))
    assert line.endswith("info    claimed partition=3")
