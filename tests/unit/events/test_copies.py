"""A copy of a message that has ended already: it is shown as one, and the message took as long as it took."""

from typing import Any

import pytest

from reach.cli.picture import lines_of
from reach.events.traced import Message, trace_of
from tests.unit.events.test_traced import START, record, run

ENDED = [
    record(0, "message.received", "m1", pattern="capability:pay"),
    *run("m1", 1, "bank", 1, 2, 9, "ok"),
    record(10, "message.delivered", "m1", attempt=1, agent="bank", code="ok"),
]
HOUR = 3_600_000
COPY = record(HOUR, "message.received", "m1", code="duplicate")
ANSWERED = record(HOUR + 5, "message.delivered", "m1", attempt=1, agent="bank", code="ok")


def the_message(*records: dict[str, Any]) -> Message:
    (message,) = trace_of("c1", records).messages
    return message


@pytest.mark.parametrize(
    "more", [{"stored": True}, {}], ids=["as it is recorded", "as versions before have recorded it"]
)
def test_a_repeat_by_key_makes_a_message_no_longer(more: dict[str, Any]) -> None:
    once, again = the_message(*ENDED), the_message(*ENDED, COPY, ANSWERED | more)
    assert (again.began_at_us, again.ended_at_us) == (once.began_at_us, once.ended_at_us) == (START, START + 10_000)
    assert (again.code, again.open, again.runs) == ("ok", False, once.runs)
    assert [(mark.point, mark.copy) for mark in again.marks] == [
        ("message.delivered", False),
        ("message.received", True),
        ("message.delivered", True),
    ]
    tree = trace_of("c1", [*ENDED, COPY, ANSWERED | more])
    assert tree.ended_at_us == START + 10_000
    head, first, *_, arrived, told = lines_of(tree)
    assert "1 message, 1 run, 10 ms from" in head
    assert first.endswith(": ok, 10 ms")
    assert arrived.endswith("message.received: duplicate")
    assert told.endswith("message.delivered: run 1, bank, ok, of a copy")
    assert "+3600" in told or "+60 min" in told


def test_who_asks_again_may_be_the_first_to_hear_of_it() -> None:
    """The one who asked first has died: nobody has recorded that he was told."""
    message = the_message(*ENDED[:-1], COPY, ANSWERED | {"stored": True})
    assert (message.ended_at_us, message.code, message.open) == (START + 9_000, "ok", False)
    alone = the_message(ENDED[0], COPY, ANSWERED | {"stored": True})
    assert (alone.code, alone.open) == ("ok", False), "where all else is lost it still says how it ended"


def test_a_copy_that_is_refused_says_nothing_of_the_message() -> None:
    refused = [
        record(HOUR, "message.received", "m1", code="duplicate"),
        record(HOUR + 1, "message.rejected", "m1", code="envelope.id_conflict", final=True),
        record(HOUR + 2, "message.delivered", "m1", code="envelope.id_conflict"),
    ]
    message = the_message(*ENDED, *refused)
    assert (message.code, message.ended_at_us) == ("ok", START + 10_000)
    assert [mark.copy for mark in message.marks] == [False, True, True, True]
    first = the_message(record(0, "message.received", "m1"), *refused[1:])
    assert (first.code, [mark.copy for mark in first.marks]) == ("envelope.id_conflict", [False, False])


def test_a_new_round_is_no_copy() -> None:
    again = [
        record(HOUR, "message.received", "m1", round=2),
        *[one | {"round": 2} for one in run("m1", 1, "bank", HOUR + 1, HOUR + 2, HOUR + 3, "ok")],
        record(HOUR + 4, "message.delivered", "m1", attempt=1, agent="bank", code="ok", round=2),
    ]
    message = the_message(*ENDED, *again)
    assert message.ended_at_us == START + (HOUR + 4) * 1000
    assert not any(mark.copy for mark in message.marks)


def test_each_leg_is_delivered_once() -> None:
    legs = [record(10 + at, "message.delivered", "m1", leg=leg, code="ok") for at, leg in enumerate((0, 1, 0))]
    assert [mark.copy for mark in the_message(ENDED[0], *legs).marks] == [False, False, True]
