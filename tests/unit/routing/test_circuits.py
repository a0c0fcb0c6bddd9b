"""Agents whose circuit is open: another one is chosen, else the message waits as long as it can, and is told when to come again."""

import pytest

from reach.envelope.circuit import OpenCircuit
from reach.envelope.ledger import Best, LegState
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Delay, Deliver, Finish, Move, Stay
from tests.unit.routing.seen import NOW, add, chooser, finish, leg, message, queued, step, stored, three

TOLD = b'{"until_ms":%d,"why":"5 failures in a row"}'


def shut(index: CapabilityIndex, *agents: str, ms: int = 30_000, partition: int = 0) -> CapabilityIndex:
    """It is told that their circuits are open."""
    for agent in agents:
        index.apply("circuit", f"{agent}/{partition}", TOLD % (NOW + ms))
    return index


def beaten(index: CapabilityIndex) -> None:
    """They live on, 29 s later."""
    for agent_id in index.agents:
        index.beat(agent_id, f"{agent_id}.1", NOW + 29_000, b'{"state":"ready"}')


def test_another_agent_is_chosen() -> None:
    by = chooser(shut(three(), "a", "c"))
    for _ in range(10):
        assert step(decide(message(), None, by, NOW)) == Deliver("b")


def test_the_reason_is_told_in_words() -> None:
    choice = decide(message(), None, chooser(shut(three(), "a", ms=12_300)), NOW)
    (seen,) = [seen for seen in choice.why.candidates if seen.agent == "a"]
    assert (seen.filter, seen.reason) == ("circuit", "5 failures in a row: left alone for another 12.3 s")
    assert choice.why.counts["circuit"] == 1


def test_where_there_is_nobody_else_it_waits_and_ends_with_a_hint() -> None:
    by = chooser(shut(three(), "a", "b", ms=90_000))
    shut(by.index, "c", ms=80_000)
    assert step(decide(message(), None, by, NOW)) == Delay(200)
    beaten(by.index)
    assert step(decide(message(), None, by, NOW + 29_400)) == Delay(100)
    end = finish(decide(message(), None, by, NOW + 29_500))
    assert (end.code, end.retry_after_ms) == ("circuit.open", 50_500)
    assert end.details["candidates"] == 3


def test_where_the_ttl_is_shorter_it_is_told_before_that() -> None:
    by = chooser(shut(three(), "a", "b", "c"))
    asked = message(first_at_ms=NOW + 5_000)
    assert step(decide(asked, None, by, NOW + 4_499)) == Delay(1)
    assert finish(decide(asked, None, by, NOW + 4_500)).code == "circuit.open"
    handed = leg(LegState.WAITING, handed=True)
    assert isinstance(step(decide(asked, handed, by, NOW + 6_000)), Delay)


def test_one_that_has_run_already_ends_with_its_last_answer() -> None:
    by = chooser(shut(three(), "a", "b", "c"))
    tried = leg(LegState.WAITING, agent="a", handed=True, core="{}", code="handler.error", tried=("a",))
    assert step(decide(message(), tried, by, NOW + 29_500)) == Finish("", "", last=True)


def test_who_has_the_best_answer_is_not_asked_for_a_better_one_from_behind_a_circuit() -> None:
    by = chooser(shut(three(), "b", "c"))
    kept = leg(LegState.RETURNED, agent="a", core="{}", best=Best(0.4, "ok", "{}", "{}", "a", "i", 1))
    assert step(decide(message(), kept, by, NOW)) == Finish("", "", last=True)


def test_a_broadcast_has_a_leg_for_it_that_waits() -> None:
    by = chooser(shut(three(), "b", ms=90_000))
    choice = decide(message(scope="all"), None, by, NOW)
    assert choice.steps == (Deliver("a"), Delay(200, "b"), Deliver("c"))
    waiting = leg(LegState.WAITING, agent="b")
    assert step(decide(message(scope="all"), waiting, by, NOW + 5_000)) == Delay(2_000, "b")
    beaten(by.index)
    assert finish(decide(message(scope="all"), waiting, by, NOW + 29_500)).code == "circuit.open"


def test_when_its_time_is_over_it_is_for_route_to_say() -> None:
    by = chooser(shut(three(), "a", "b", "c", ms=1_000))
    assert isinstance(step(decide(message(), None, by, NOW + 999)), Delay)
    assert isinstance(step(decide(message(), None, by, NOW + 1_000)), Deliver)


def test_another_partition_has_a_circuit_of_its_own() -> None:
    by = chooser(shut(three(), "a", "b", "c", partition=1))
    assert isinstance(step(decide(message(), None, by, NOW)), Deliver)


@pytest.mark.parametrize("moves", [0, 2])
def test_what_nobody_has_picked_up_there_may_always_go_elsewhere(moves: int) -> None:
    by = chooser(shut(three(), "a", "b"))
    assert step(decide(message(), queued(moves=moves), by, NOW + 3_000)) == Move("c", free=True)
    assert step(decide(message(), queued(left=("c",)), by, NOW + 3_000)) == Stay()


def test_nothing_is_moved_behind_a_circuit() -> None:
    by = chooser(shut(three(), "b", "c"))
    assert step(decide(message(), queued(), by, NOW + 3_000)) == Stay()


# ---------------------------------------------------------------- what the index knows


def test_what_route_has_found_is_known_at_once_and_what_is_told_comes_after() -> None:
    index = three()
    index.note_open("a", 0, NOW + 5_000)
    index.note_open("nobody", 0, NOW + 5_000)
    assert index.circuits == {"a": {0: OpenCircuit(NOW + 5_000, "it has failed again and again")}}
    shut(index, "a", ms=29_000)
    index.note_open("a", 0, NOW + 30_000)
    assert index.circuits["a"][0] == OpenCircuit(NOW + 30_000, "5 failures in a row")
    index.apply("circuit", "a/0", b"")
    index.apply("circuit", "b/0", b"")
    assert index.circuits == {"a": {}}


def test_a_snapshot_takes_the_place_of_all_that_was_known() -> None:
    index = shut(three(), "a")
    told = {"b/0": TOLD % NOW, "x/0": TOLD % NOW, "b": TOLD % NOW, "c/0": b"junk"}
    registered = {name: stored(name, "work") for name in "bc"}
    index.load(registered, {}, (), {}, told)
    assert index.circuits == {"b": {0: OpenCircuit(NOW, "5 failures in a row")}}
    assert index.unreadable == 1


def test_who_is_gone_is_forgotten_and_who_registers_anew_is_not() -> None:
    index = shut(three(), "a", "b")
    add(index, "a", "work", "more")
    index.apply("gone", "b", b"")
    assert set(index.circuits) == {"a"}
