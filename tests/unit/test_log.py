"""Facts stand in the text of a plain log and as fields on the record."""

import copy
import json
import logging
import pickle
import traceback

import pytest

from reach.log import HUSHED, PacedLog, event_log, hushed
from reach_worker.logs import ConsoleFormatter, JsonFormatter
from tests.manual_clock import ManualClock

log = event_log("reach.of_a_test")


@pytest.fixture
def caught(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_a_plain_handler_prints_the_facts(caught: pytest.LogCaptureFixture) -> None:
    log.info("reclaimed", agent="a-1", count=3)
    assert caught.messages == ["reclaimed agent=a-1 count=3"]


def test_the_worker_has_them_as_fields_once(caught: pytest.LogCaptureFixture) -> None:
    log.info("reclaimed", agent="a-1", count=3)
    line = json.loads(JsonFormatter().format(caught.records[0]))
    assert (line["event"], line["agent"], line["count"]) == ("reclaimed", "a-1", 3)
    assert ConsoleFormatter().format(caught.records[0]).endswith("info    reclaimed agent=a-1 count=3")


def test_extra_is_facts_too_and_no_facts_is_the_bare_event(caught: pytest.LogCaptureFixture) -> None:
    log.warning("gone", extra={"agent": "a"})
    log.warning("gone")
    assert caught.messages == ["gone agent=a", "gone"]


def test_a_fact_cannot_reach_the_terminal_or_forge_a_line(caught: pytest.LogCaptureFixture) -> None:
    log.warning("refused", by="a\x1b[2J\nroot=1", why="two words", none="")
    assert caught.messages == ["refused by='a\\x1b[2J\\nroot=1' why='two words' none=''"]
    assert "\x1b" not in ConsoleFormatter().format(caught.records[0])


def test_exceptions_and_other_processes(caught: pytest.LogCaptureFixture) -> None:
    log.error("failed", task="t", exc_info=ValueError("bug"))
    (record,) = caught.records
    assert record.exc_info is not None
    other = copy.copy(record)
    other.exc_info = None
    assert pickle.loads(pickle.dumps(other)).getMessage() == "failed task=t"


def test_the_same_of_the_same_thing_is_said_once_in_ten_seconds(caught: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    paced = PacedLog(log, clock)
    assert [paced.warning("gone", of="a", agent="a") for _ in range(5)] == [True] + [False] * 4
    assert paced.warning("gone", of="b", agent="b")
    assert paced.error("lost", of="a", agent="a")
    clock.advance(9_999)
    assert not paced.warning("gone", of="a", agent="a")
    clock.advance(1)
    assert paced.warning("gone", of="a", agent="a")
    clock.advance(10_000)
    assert paced.info("gone", of="a", agent="a")
    assert caught.messages == [
        "gone agent=a",
        "gone agent=b",
        "lost agent=a",
        "gone agent=a unsaid=5",
        "gone agent=a",
    ]
    assert [record.levelname for record in caught.records] == ["WARNING", "WARNING", "ERROR", "WARNING", "INFO"]


def test_a_paced_log_forgets_before_it_grows(caught: pytest.LogCaptureFixture) -> None:
    paced = PacedLog(log, ManualClock())
    for number in range(1_001):
        paced.warning("gone", of=number)
    assert paced.warning("gone", of=0)  # forgotten, and so said again
    assert not paced.warning("gone", of=1_000)


def test_an_error_that_may_not_be_told_keeps_its_type_and_its_places() -> None:
    def charge() -> None:
        raise KeyError("pin-4711")

    def refund() -> None:
        try:
            charge()
        except KeyError as error:
            error.add_note("pin-4711")
            raise OSError(5, "pin-4711") from error

    with pytest.raises(OSError, match="pin-4711") as raised:
        refund()
    told = "".join(traceback.format_exception(hushed(raised.value)))
    assert "pin-4711" not in told.replace('"pin-4711"', "")  # the lines of the program are as they were written
    assert [line for line in told.splitlines() if "Error: " in line] == [f"KeyError: {HUSHED}", f"OSError: {HUSHED}"]
    assert ("in charge" in told, "in refund" in told, "direct cause" in told) == (True, True, True)


def test_errors_that_came_of_each_other_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__context__, second.__context__ = second, first
    told = hushed(first)
    assert told.__context__ is not None
    assert told.__context__.__context__ is told
    group = hushed(ExceptionGroup("pin-4711", [ValueError("pin-4711")]))
    assert "pin-4711" not in "".join(traceback.format_exception(group))
