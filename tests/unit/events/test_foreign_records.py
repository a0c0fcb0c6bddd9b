"""Anybody may write records, of any shape: whoever asks is told the rest all the same."""

from typing import Any

import pytest

from reach.cli.decided import lines_of as decisions_as_lines
from reach.cli.picture import lines_of
from reach.cli.recorded import line_of
from reach.events.asking import GAP_US, Collected
from reach.events.decided import decisions_of
from reach.events.recordings import recordings_in
from reach.events.traced import trace_of
from tests.unit.events.test_traced import CONVERSATION, START, record

ODD: list[Any] = [None, True, -7, 10**40, 1e308, "x", [], ["x"], [None], {}, {"fit": 10**40}, {"agent": {}}]
FIELDS = (
    *("at_us", "point", "msg_id", "leg", "attempt", "correlation_id", "agent", "instance", "node", "code", "final"),
    *("span_id", "parent_span_id", "source", "in_reply_to", "schema", "type", "pattern", "strategy", "chosen", "via"),
    *("candidates", "counts", "fallback", "tier", "policy", "duration_us", "envelope", "receipt", "left_out", "worker"),
)
POINTS = ("message.received", "route.matched", "route.sent", "agent.received", "agent.completed", "odd", "gap")


def odd(field: str) -> list[dict[str, Any]]:
    told = [record(3, point, "m1", counts={"matched": 1}) for point in POINTS]
    return [{**one, field: value} for one in told for value in ODD]


@pytest.mark.parametrize("field", FIELDS)
def test_a_conversation_is_told_although_a_field_is_odd(field: str) -> None:
    asked = Collected("m1", whole=True)
    asked.take([*odd(field), *CONVERSATION])
    asked.take([*odd(field), *CONVERSATION])  # by now it knows the conversation
    assert asked.names >= {"m1", "m2", "c1"}
    tree = asked.trace()
    assert tree is not None
    assert "m2" in {message.msg_id for message in tree.walk()}
    assert lines_of(tree)
    assert {one.msg_id for one in recordings_in("c1", asked.found.records(), roots=False)} >= {"m1", "m2"}


def test_a_moment_that_no_date_has_does_not_widen_what_is_asked_of_a_store() -> None:
    asked = Collected("m1")
    asked.take([{**CONVERSATION[0], "at_us": at_us} for at_us in (10**30, -(10**30), START)])
    assert asked.span() == (0, START + GAP_US)


@pytest.mark.parametrize("field", FIELDS)
def test_a_message_is_explained_although_a_field_is_odd(field: str) -> None:
    told = decisions_of("m1", [*odd(field), *CONVERSATION])
    assert told is not None
    assert decisions_as_lines(told)


@pytest.mark.parametrize("field", FIELDS)
def test_each_record_has_its_line(field: str) -> None:
    for one in odd(field):
        assert "\n" not in line_of(one)
        assert one["point"] is None or str(one["point"]) in line_of(one) or not one["point"]


def test_what_a_gap_cannot_have_lost_is_not_counted() -> None:
    gaps = [record(1, "gap", "", counts={"missing": number}) for number in (3, -5, True, "2")]
    assert trace_of("m1", gaps).missing == 3
