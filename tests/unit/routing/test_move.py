"""The decision about what nobody picks up: a queued leg moves to another agent, or stays."""

from typing import Any

import pytest

from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Move, Stay
from tests.unit.routing.seen import NOW, chooser, message, queued, silence, step, three


@pytest.fixture
def index() -> CapabilityIndex:
    return three()


def test_a_backlog_moves_to_a_free_slot_only(index: CapabilityIndex) -> None:
    index.beat("b", "b.1", NOW, b'{"inflight":8}')
    assert step(decide(message(), queued(), chooser(index), NOW)) == Move("c")
    index.beat("c", "c.1", NOW, b'{"inflight":9}')
    choice = decide(message(), queued(), chooser(index), NOW)
    assert step(choice) == Stay()
    assert choice.why.counts["fit"] == 2


@pytest.mark.parametrize("how", ["gone", "draining", "silent"])
def test_from_an_inbox_that_nobody_reads_it_moves_to_anybody_who_fits(index: CapabilityIndex, how: str) -> None:
    index.beat("b", "b.1", NOW + 9, b'{"inflight":8}')
    index.apply("gone", "c", b"")
    now = NOW
    if how == "gone":
        index.apply("gone", "a", b"")
    elif how == "draining":
        silence(index, "a")
    else:
        now = NOW + 15_005
    assert step(decide(message(), queued(), chooser(index), now)) == Move("b", free=True)


@pytest.mark.parametrize(
    ("fields", "asked", "now"),
    [
        ({"moves": 2}, {}, NOW),
        ({}, {"scope": "all"}, NOW),
        ({}, {}, NOW + 30_000),
        ({}, {"hops": frozenset("bc")}, NOW),
    ],
)
def test_it_stays(index: CapabilityIndex, fields: dict[str, object], asked: dict[str, Any], now: int) -> None:
    assert step(decide(message(**asked), queued(**fields), chooser(index), now)) == Stay()


@pytest.mark.parametrize("how", ["gone", "draining", "silent"])
def test_a_move_from_an_inbox_that_nobody_reads_is_free(index: CapabilityIndex, how: str) -> None:
    now = NOW
    if how == "gone":
        index.apply("gone", "a", b"")
    elif how == "draining":
        silence(index, "a")
    else:
        now = NOW + 15_005
        index.beat("b", "b.1", now, b"{}")
    index.apply("gone", "c", b"")
    assert step(decide(message(), queued(moves=2), chooser(index), now)) == Move("b", free=True)


@pytest.mark.parametrize("is_read", [True, False])
def test_it_never_moves_back_to_where_it_was_moved_away_from(index: CapabilityIndex, *, is_read: bool) -> None:
    if not is_read:
        silence(index, "a")
    by = chooser(index)
    assert step(decide(message(), queued(moves=1, left=("b",)), by, NOW)) == Move("c", free=not is_read)
    choice = decide(message(), queued(moves=1, left=("b", "c")), by, NOW)
    assert step(choice) == Stay()
    assert choice.why.counts["matched"] == 0


def test_a_second_run_may_move_as_well(index: CapabilityIndex) -> None:
    found = decide(message(), queued(handed=True, moves=1, attempt=1, tried=("b",)), chooser(index), NOW)
    assert step(found) == Move("c")


def test_a_busy_agent_is_still_read(index: CapabilityIndex) -> None:
    index.beat("a", "a.1", NOW, b'{"state":"busy","inflight":8}')
    for agent_id in ("b", "c"):
        index.beat(agent_id, f"{agent_id}.1", NOW, b'{"inflight":8}')
    assert step(decide(message(), queued(), chooser(index), NOW)) == Stay()


@pytest.mark.parametrize(
    ("beat", "room"),
    [
        (b"{}", 8),  # nothing is known of its pace: one for each slot
        (b'{"avg_response_ms":9000}', 8),
        (b'{"avg_response_ms":1000}', 24),
        (b'{"avg_response_ms":0}', 24_000),
    ],
)
def test_of_a_backlog_as_much_goes_as_the_other_can_begin_within_the_network_time(
    index: CapabilityIndex, beat: bytes, room: int
) -> None:
    index.beat("a", "a.1", NOW, b'{"state":"busy","inflight":8}')
    index.beat("b", "b.1", NOW, beat)
    index.apply("gone", "c", b"")
    assert step(decide(message(), queued(), chooser(index), NOW)) == Move("b", room=room)


def test_who_has_a_free_slot_and_does_not_pick_it_up_has_no_backlog(index: CapabilityIndex) -> None:
    index.beat("a", "a.1", NOW, b'{"state":"busy","inflight":7}')
    index.apply("gone", "c", b"")
    assert step(decide(message(), queued(), chooser(index), NOW)) == Move("b")
