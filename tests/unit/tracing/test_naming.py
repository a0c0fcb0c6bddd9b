"""What a span is named after: no two hops share an id, and whoever records the next one finds its parent."""

from typing import Any

import pytest

from reach.tracing.naming import arrival_span, end_span, other_span, run_span
from reach.tracing.record import HopRecord, Point, Told, record_of

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
SENDER = "b7ad6b7169203331"
TRACE = f"00-0af7651916cd43dd8448eb211c80319c-{SENDER}-01"


def hop(point: Point, *, sender: str | None = TRACE, nonce: str = "1", **told: Any) -> HopRecord:
    what: Told = {**told}  # type: ignore[typeddict-item]
    return record_of(point, MSG, sender, what, at_us=1, node="n", worker="w", contents=None, nonce=nonce)


def test_each_part_of_a_name_counts() -> None:
    arrivals = [arrival_span(MSG, 1), arrival_span(MSG, 2), arrival_span(MSG, 1, "e1"), arrival_span(MSG, 1, "e2")]
    runs = [
        run_span(MSG, *of)
        for of in (
            (0, "a", "7-0", "route.sent"),
            (1, "a", "7-0", "route.sent"),
            (0, "b", "7-0", "route.sent"),
            (0, "a", "8-0", "route.sent"),
            (0, "a", "7-0", "agent.received"),
        )
    ]
    ends = [end_span(MSG, 0, 1, "ok"), end_span(MSG, 1, 1, "ok"), end_span(MSG, 0, 2, "ok")]
    others = [
        other_span(MSG, *of)
        for of in (
            (0, "route.matched", 1, 0, "e"),
            (1, "route.matched", 1, 0, "e"),
            (0, "message.retried", 1, 0, "e"),
            (0, "route.matched", 2, 0, "e"),
            (0, "route.matched", 1, 1, "e"),
            (0, "route.matched", 1, 0, "f"),
        )
    ]
    every = [*arrivals, *runs, *ends, *others]
    assert len(set(every)) == len(every)


def test_an_end_is_named_by_its_leg_and_round_whatever_its_code() -> None:
    assert end_span(MSG, 0, 1, "ok") == end_span(MSG, 0, 1, "handler.error") == end_span(MSG, 0, 1, "cancelled")


@pytest.mark.parametrize(
    "code",
    [
        "envelope.id_conflict",
        "target.bad",
        "type.unregistered",
        "ttl.zero",
        "overloaded",
        "auth.denied",
        "loop.x",
        "budget.x",
    ],
)
def test_what_may_be_refused_beside_a_message_that_goes_on_is_named_by_its_code(code: str) -> None:
    assert end_span(MSG, 0, 1, code) not in {end_span(MSG, 0, 1, "ok"), end_span(MSG, 0, 1, "envelope.too_large")}


def test_a_run_lies_below_its_hand_over_and_its_points_below_it() -> None:
    run: dict[str, Any] = {"leg": 1, "attempt": 1, "agent": "a", "hand": "7-0"}
    sent, moved = hop("route.sent", **run), hop("message.moved", **run)
    received, responding = hop("agent.received", **run), hop("agent.responding", **run)
    completed = hop("agent.completed", **run)
    assert sent.parent_span_id == moved.parent_span_id == arrival_span(MSG, 1)
    assert received.parent_span_id == sent.span_id == moved.span_id
    assert responding.parent_span_id == completed.parent_span_id == received.span_id
    assert len({sent.span_id, received.span_id, responding.span_id, completed.span_id}) == 4


def test_the_delivery_lies_below_the_end_whoever_tells_of_that() -> None:
    run: dict[str, Any] = {"leg": 1, "attempt": 1, "agent": "a", "hand": "7-0", "code": "ok"}
    end = hop("agent.completed", **run, final=True)
    cancelled = hop("message.cancelled", leg=1, code="cancelled", final=True)
    for code in ("ok", "cancelled"):
        delivered = hop("message.delivered", leg=1, agent="a", code=code)
        assert delivered.parent_span_id == end.span_id == cancelled.span_id
    assert hop("agent.completed", **run).span_id != end.span_id


def test_what_was_answered_before_its_round_lies_below_what_came_in_this_one() -> None:
    told: dict[str, Any] = {"leg": 1, "code": "ok", "round": 2}
    assert hop("message.delivered", **told, stored=True).parent_span_id == arrival_span(MSG, 2)
    assert hop("message.delivered", **told).parent_span_id == end_span(MSG, 1, 2, "ok")
    assert hop("message.delivered", leg=1, code="ok", stored=True).parent_span_id == end_span(MSG, 1, 1, "ok")


def test_what_comes_to_the_door_lies_below_its_sender() -> None:
    first, second = hop("message.received", entry="e1"), hop("message.received", entry="e2", round=2)
    copy = hop("message.received", entry="e3", code="duplicate")
    assert [one.parent_span_id for one in (first, second, copy)] == [SENDER] * 3
    assert [one.span_id for one in (first, second, copy)] == [
        arrival_span(MSG, 1),
        arrival_span(MSG, 2),
        arrival_span(MSG, 1, "e3"),
    ]
    assert hop("message.received", entry="e9").span_id == first.span_id, "by its round, not by its entry"


def test_without_a_sender_what_comes_again_lies_below_what_came_first() -> None:
    assert hop("message.received", sender=None).parent_span_id == ""
    assert hop("message.rejected", sender=None, code="envelope.x").parent_span_id == ""
    for told in ({"round": 2}, {"code": "duplicate", "entry": "e3"}):
        assert hop("message.received", sender=None, **told).parent_span_id == arrival_span(MSG, 1)


def test_what_is_refused_lies_below_what_has_come() -> None:
    refused: dict[str, Any] = {"code": "envelope.id_conflict", "entry": "e3", "final": True}
    assert hop("message.rejected", **refused).parent_span_id == SENDER
    assert hop("message.rejected", **refused, came="first").parent_span_id == arrival_span(MSG, 1)
    assert hop("message.rejected", **refused, came="copy").parent_span_id == arrival_span(MSG, 1, "e3")


def test_all_else_is_named_by_what_it_is_about_else_by_whoever_records_it() -> None:
    matched: dict[str, Any] = {"leg": 0, "attempt": 1}
    by_entry = [
        hop("route.matched", **matched, entry=entry, nonce=nonce)
        for entry, nonce in (("e", "1"), ("e", "2"), ("f", "1"))
    ]
    assert by_entry[0].span_id == by_entry[1].span_id != by_entry[2].span_id
    by_hand = [hop("message.retried", **matched, agent="a", hand=hand, nonce="1") for hand in ("7-0", "8-0")]
    assert by_hand[0].span_id != by_hand[1].span_id
    nobody = [hop("message.reclaimed", **matched, nonce=nonce) for nonce in ("1", "2")]
    assert nobody[0].span_id != nobody[1].span_id
