"""Which code tells what is missing where nobody has room, and when to come again."""

from typing import Any

import pytest

from reach.envelope.circuit import OpenCircuit
from reach.envelope.registration import Beat
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Choice, Delay, Finish
from tests.unit.routing.seen import NOW, add, chooser, finish, message, step

FULL: dict[str, Any] = {"unfit": {"a": "full", "b": "full"}}
REJECT, SLOTS = b'{"on_full":"reject"}', b'{"max_inbox":0,"on_full":"reject"}'


@pytest.fixture
def index() -> CapabilityIndex:
    """a (4 slots) takes 2 s for one, b (1 slot) takes 9 s."""
    made = CapabilityIndex()
    add(made, "a", "work", concurrency=4, beat=Beat(avg_response_ms=2_000.0, context_left=1_000))
    add(made, "b", "work", concurrency=1, beat=Beat(avg_response_ms=9_000.0, context_left=3_000))
    return made


def asked(index: CapabilityIndex, policy: bytes = b"", at_ms: int = 0, tokens: int = 0, **options: Any) -> Choice:
    index.apply("route", "capability:work", policy)
    index.floor_ms = NOW
    made = message(context_tokens=tokens, total_at_ms=NOW + 30_000)
    return decide(made, None, chooser(index), NOW + at_ms, **options)


def test_full_inboxes_reject_at_once_and_tell_when_a_slot_is_free(index: CapabilityIndex) -> None:
    end = finish(asked(index, REJECT, **FULL))
    assert (end.code, end.retry_after_ms) == ("overloaded", 500)
    end = finish(asked(index, REJECT, unfit={"b": "full"}, limited={"a": 30_000}))
    assert (end.code, end.retry_after_ms) == ("overloaded", 9_000)


def test_taken_slots_reject_as_exhausted(index: CapabilityIndex) -> None:
    choice = asked(index, SLOTS, unfit={"a": "agent", "b": "agent"})
    assert (finish(choice).code, finish(choice).retry_after_ms) == ("capacity.exhausted", 500)
    assert [one["reason"] for one in finish(choice).details["reasons"]] == [
        "all its 4 slots are taken",
        "all its 1 slots are taken",
    ]


def test_what_waits_for_room_ends_as_exhausted(index: CapabilityIndex) -> None:
    assert step(asked(index, at_ms=5_000, **FULL)) == Delay(2_000)
    end = finish(asked(index, at_ms=29_500, **FULL))
    assert (end.code, end.message, end.retry_after_ms) == ("capacity.exhausted", "all who could take it are full", 500)


def test_where_its_ttl_is_shorter_it_is_told_before_that(index: CapabilityIndex) -> None:
    index.floor_ms = NOW
    short = message(first_at_ms=NOW + 5_000)
    assert step(decide(short, None, chooser(index), NOW + 4_499, **FULL)) == Delay(1)
    assert finish(decide(short, None, chooser(index), NOW + 4_500, **FULL)).code == "capacity.exhausted"


def test_a_context_that_nobody_has_is_exceeded(index: CapabilityIndex) -> None:
    assert step(asked(index, tokens=4_000)) == Delay(200)
    end = finish(asked(index, at_ms=29_500, tokens=4_000))
    assert (end.code, end.retry_after_ms) == ("context.exceeded", 5_000)
    assert {one["reason"] for one in end.details["reasons"]} == {
        "has 1000 tokens of context left, 4000 are needed",
        "has 3000 tokens of context left, 4000 are needed",
    }
    assert finish(asked(index, REJECT, tokens=4_000)).code == "context.exceeded"


def test_a_context_that_one_has_whose_inbox_is_full_is_exhausted(index: CapabilityIndex) -> None:
    end = finish(asked(index, at_ms=29_500, tokens=2_000, unfit={"b": "full"}))
    assert (end.code, end.retry_after_ms) == ("capacity.exhausted", 5_000)


def test_one_that_is_full_counts_more_than_one_that_fails(index: CapabilityIndex) -> None:
    index.circuits["a"] = {0: OpenCircuit(NOW + 29_700, "5 failures in a row")}
    end = finish(asked(index, at_ms=29_500, unfit={"b": "full"}))
    assert (end.code, end.retry_after_ms) == ("capacity.exhausted", 200)  # the circuit is over sooner than b has room


def test_who_has_answered_nothing_yet_may_have_room_in_a_second() -> None:
    index = CapabilityIndex()
    add(index, "a", "work")
    end = finish(asked(index, REJECT, unfit={"a": "full"}))
    assert end.retry_after_ms == 1_000


@pytest.mark.parametrize(("mean_ms", "told_ms"), [(1.0, 100), (10_000_000.0, 60_000)])
def test_nobody_is_told_to_come_at_once_or_never(mean_ms: float, told_ms: int) -> None:
    index = CapabilityIndex()
    add(index, "a", "work", beat=Beat(avg_response_ms=mean_ms))
    assert finish(asked(index, REJECT, unfit={"a": "full"})).retry_after_ms == told_ms


def test_an_inbox_that_is_gone_is_no_want_of_room() -> None:
    index = CapabilityIndex()
    add(index, "a", "work")
    end = step(asked(index, at_ms=29_500, unfit={"a": "gone"}))
    assert isinstance(end, Finish)
    assert end.code == "route.no_candidate"
