"""The degraded target: asked when nobody fits, when circuits are open, and when total is near; never for a broadcast, never for ever."""

import pytest

from reach.envelope.circuit import OpenCircuit
from reach.envelope.ledger import Best, Given, LegState
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.steps import AT_ONCE, Choice, Comeback, Delay, Deliver, Finish, Move, Stay
from tests.unit.routing.seen import NOW, add, chooser, finish, leg, message, queued, silence, step, three

TO_B = Deliver("b1", via="capability:b")
FAILED = leg(LegState.RETURNED, agent="a1", core="{}", code="handler.error", tried=("a1",), handed=True, attempt=1)
LATE = Comeback(ends=True, dead=True, late=True)


@pytest.fixture
def index() -> CapabilityIndex:
    """a falls back to b, b to c, c to d, d to a."""
    made = CapabilityIndex()
    for name, then in zip("abcd", "bcda", strict=True):
        add(made, f"{name}1", name)
        made.apply("route", f"capability:{name}", b'{"fallback":"capability:%s"}' % then.encode())
    return made


def decided(index: CapabilityIndex, *, at_ms: int = 0, **options: object) -> Choice:
    asked = message("capability:a", **options)
    return decide(asked, None, chooser(index), NOW + at_ms)


def test_who_fits_is_asked_and_no_fallback(index: CapabilityIndex) -> None:
    assert step(decided(index)) == Deliver("a1")


def test_where_nobody_fits_the_fallback_takes_it_at_once_and_says_why(index: CapabilityIndex) -> None:
    silence(index, "a1")
    choice = decided(index)
    assert step(choice) == TO_B
    assert choice.why.via == "capability:b"
    assert {(seen.agent, seen.filter) for seen in choice.why.candidates} == {("b1", ""), ("a1", "ready")}
    assert (choice.why.counts["fit"], choice.why.counts["ready"]) == (1, 1)


def test_it_stands_in_where_nobody_offers_it_at_all(index: CapabilityIndex) -> None:
    index.apply("gone", "a1", b"")
    assert step(decided(index)) == TO_B


def test_it_stands_in_for_those_whose_circuit_is_open(index: CapabilityIndex) -> None:
    index.circuits["a1"] = {0: OpenCircuit(NOW + 30_000, "5 failures in a row")}
    assert step(decided(index)) == TO_B


def test_the_fallback_of_a_fallback_is_followed_once(index: CapabilityIndex) -> None:
    silence(index, "a1", "b1")
    assert step(decided(index)) == Deliver("c1", via="capability:c")
    silence(index, "c1")
    assert step(decided(index)) == Delay(200)


def test_a_circle_is_gone_round_once(index: CapabilityIndex) -> None:
    index.apply("route", "capability:b", b'{"fallback":"capability:a"}')
    silence(index, "a1", "b1")
    assert step(decided(index)) == Delay(200)
    index.apply("route", "capability:a", b'{"fallback":"capability:a"}')
    assert step(decided(index)) == Delay(200)


def test_its_own_pattern_is_no_fallback_of_its_own(index: CapabilityIndex) -> None:
    index.apply("route", "capability:b", b'{"fallback":"capability:a"}')
    index.apply("gone", "b1", b"")
    index.beat("a1", "a1.1", NOW + 25_000, b'{"state":"ready"}')
    retried = leg(LegState.RETURNED, agent="a1", core="{}", code="handler.retry", handed=True)
    assert step(decide(message("capability:a"), retried, chooser(index), NOW + 25_000)) == Deliver("a1")


def test_what_ends_for_want_of_anybody_tells_of_both(index: CapabilityIndex) -> None:
    silence(index, "a1", "b1", "c1")
    end = finish(decided(index, at_ms=14_900, total_at_ms=NOW + 15_000))
    assert end.code == "route.no_candidate"
    assert {one["agent"] for one in end.details["reasons"]} == {"a1", "b1", "c1"}


def test_a_broadcast_has_none(index: CapabilityIndex) -> None:
    silence(index, "a1")
    assert step(decided(index, scope="all")) == Delay(200, "a1")
    index.apply("gone", "a1", b"")
    assert isinstance(step(decided(index, scope="all")), Delay)
    removed = decide(message("capability:a", scope="all"), leg(LegState.RETURNED, agent="a1"), chooser(index), NOW)
    assert finish(removed).code == "agent.lost"


def test_a_loop_is_a_loop_and_no_reason_to_fall_back(index: CapabilityIndex) -> None:
    assert finish(decided(index, hops=frozenset({"a1"}))).code == "loop.detected"


def test_that_the_fallback_is_on_the_path_is_no_loop(index: CapabilityIndex) -> None:
    index.apply("gone", "a1", b"")
    index.apply("route", "capability:b", b"")
    assert step(decided(index, hops=frozenset({"b1"}))) == Delay(200)


NOT_B = b'{"source":"s","target":"capability:b","effect":"deny"}'
DENIED = "would stand in (capability:b): the rule no-b denies s capability:b"


def test_that_a_rule_keeps_it_from_its_only_fallback_is_told_and_is_no_denial(index: CapabilityIndex) -> None:
    """Its own agents may still appear, so it waits; but who looks why nobody stands in must find the rule."""
    index.apply("gone", "a1", b"")
    index.apply("route", "capability:b", b"")
    index.apply("rule", "no-b", NOT_B)
    waits = decided(index, source="s")
    assert step(waits) == Delay(200)
    assert [(seen.agent, seen.filter, seen.reason) for seen in waits.why.candidates] == [("b1", "rules", DENIED)]
    end = finish(decided(index, at_ms=3_000, source="s"))
    assert end.code == "route.not_found"
    assert end.details["reasons"] == [{"agent": "b1", "filter": "rules", "reason": DENIED}]


def test_it_is_told_beside_what_keeps_its_own_agents(index: CapabilityIndex) -> None:
    silence(index, "a1")
    index.apply("route", "capability:b", b"")
    index.apply("rule", "no-b", NOT_B)
    end = finish(decided(index, at_ms=14_900, source="s", total_at_ms=NOW + 15_000))
    assert end.code == "route.no_candidate"
    assert [one["filter"] for one in end.details["reasons"]] == ["ready", "rules"]


def test_it_is_told_where_a_retry_would_have_gone_there(index: CapabilityIndex) -> None:
    index.apply("route", "capability:b", b"")
    index.apply("rule", "no-b", NOT_B)
    choice = decide(message("capability:a", source="s"), FAILED, chooser(index), NOW, retry=LATE)
    assert finish(choice).last
    assert [(seen.agent, seen.reason) for seen in choice.why.candidates] == [("b1", DENIED)]


def test_an_agent_that_may_not_stand_in_for_itself_is_told_as_what_it_is(index: CapabilityIndex) -> None:
    """It offers both: that a rule forbids the one does not hide that its circuit is open for the other."""
    index.apply("gone", "b1", b"")
    index.apply("route", "capability:b", b"")
    add(index, "a1", "a", "b")
    index.circuits["a1"] = {0: OpenCircuit(NOW + 60_000, "5 failures in a row")}
    index.apply("rule", "no-b", NOT_B)
    end = finish(decided(index, at_ms=14_900, source="s", total_at_ms=NOW + 15_000))
    assert end.code == "circuit.open"
    assert {one["filter"] for one in end.details["reasons"]} == {"circuit", "rules"}


def test_while_agents_come_back_they_are_waited_for(index: CapabilityIndex) -> None:
    index.settling_until_ms = NOW + 10_000
    index.apply("gone", "a1", b"")
    assert isinstance(step(decided(index)), Delay)
    add(index, "a1", "a")
    silence(index, "a1")
    assert step(decided(index)) == TO_B


def test_a_fallback_that_nobody_can_read_is_none(index: CapabilityIndex) -> None:
    silence(index, "a1")
    index.apply("route", "capability:a", b'{"fallback":"what?"}')
    assert step(decided(index)) == Delay(200)


# ---------------------------------------------------------------- when total is near


def again(index: CapabilityIndex, at_ms: int, *, retry: Comeback = AT_ONCE, **fields: object) -> Choice:
    for agent in index.agents:
        index.beat(agent, f"{agent}.1", NOW + at_ms, b'{"state":"ready"}')
    return decide(message("capability:a", **fields), FAILED, chooser(index), NOW + at_ms, retry=retry)


def test_what_has_failed_goes_there_in_the_last_third_of_its_time(index: CapabilityIndex) -> None:
    assert step(again(index, 19_999)) == Deliver("a1")
    assert step(again(index, 20_000)) == TO_B


def test_a_retry_that_would_come_too_late_goes_there_at_once_instead(index: CapabilityIndex) -> None:
    assert step(again(index, 14_000, retry=LATE)) == TO_B
    assert step(again(index, 14_000, retry=Comeback(ends=True, dead=True))) == Finish("", "", last=True, dead=True)


def test_the_fallback_that_has_failed_itself_is_no_way_out(index: CapabilityIndex) -> None:
    silence(index, "c1")
    tried = leg(LegState.RETURNED, agent="b1", core="{}", code="handler.error", tried=("a1", "b1"), handed=True)
    by, asked = chooser(index), message("capability:a")
    for agent in ("a1", "b1"):
        index.beat(agent, f"{agent}.1", NOW + 25_000, b'{"state":"ready"}')
    assert step(decide(asked, tried, by, NOW + 25_000)) == Deliver("a1")
    assert step(decide(asked, tried, by, NOW + 25_000, retry=LATE)) == Finish("", "", last=True, dead=True)


def test_who_stands_in_and_asks_for_more_time_than_there_is_ends_it(index: CapabilityIndex) -> None:
    """Such a run burns nothing, so nobody counts as tried: two of them would ask in turns until total."""
    add(index, "b2", "b")
    asked = message("capability:a")
    first = leg(LegState.RETURNED, agent="a1", core="{}", code="handler.retry", handed=True)
    assert isinstance(step(decide(asked, first, chooser(index), NOW, retry=LATE)), Deliver)
    second = leg(LegState.RETURNED, agent="b1", core="{}", code="handler.retry", handed=True, via="fallback")
    assert step(decide(asked, second, chooser(index), NOW, retry=LATE)) == Finish("", "", last=True, dead=True)


def test_who_has_asked_is_given_the_answer_also_near_total(index: CapabilityIndex) -> None:
    told = leg(LegState.RETURNED, agent="a1", core="{}", handed=True, answers=(Given("0", "1", "a1"),))
    for agent in index.agents:
        index.beat(agent, f"{agent}.1", NOW + 25_000, b'{"state":"ready"}')
    assert step(decide(message("capability:a"), told, chooser(index), NOW + 25_000)) == Deliver("a1")


def test_what_does_not_fit_the_context_of_one_goes_to_the_fallback_as_to_another(index: CapabilityIndex) -> None:
    assert step(again(index, 1_000, retry=Comeback(elsewhere=True))) == TO_B


def test_an_answer_that_is_not_sure_enough_is_not_made_surer_by_it(index: CapabilityIndex) -> None:
    best = leg(LegState.RETURNED, agent="a1", core="{}", best=Best(0.4, "ok", "{}", "{}", "a1", "i", 1))
    assert step(decide(message("capability:a"), best, chooser(index), NOW)) == Finish("", "", last=True)


# ---------------------------------------------------------------- what lies unread


def unread(index: CapabilityIndex, at_ms: int) -> Choice:
    for agent in ("b1", "c1", "d1"):
        index.beat(agent, f"{agent}.1", NOW + at_ms, b'{"state":"ready"}')
    lying = leg(LegState.QUEUED, agent="a1", hand="1-1")
    return decide(message("capability:a"), lying, chooser(index), NOW + at_ms)


def test_what_lies_with_the_dead_moves_there(index: CapabilityIndex) -> None:
    assert step(unread(index, 16_000)) == Move("b1", free=True, via="capability:b")


def test_a_backlog_moves_there_only_near_total_and_only_to_a_free_slot(index: CapabilityIndex) -> None:
    index.beat("a1", "a1.1", NOW + 15_000, b'{"state":"busy","inflight":99}')
    assert step(unread(index, 19_000)) == Stay()
    moved = step(unread(index, 21_000))
    assert isinstance(moved, Move)
    assert (moved.agent, moved.free, moved.via) == ("b1", False, "capability:b")
    for agent in ("b1", "c1"):
        index.beat(agent, f"{agent}.1", NOW + 22_000, b'{"state":"busy","inflight":99}')
    lying = leg(LegState.QUEUED, agent="a1", hand="1-1")
    assert step(decide(message("capability:a"), lying, chooser(index), NOW + 22_000)) == Stay()


def test_without_a_fallback_nothing_is_different() -> None:
    assert step(decide(message(), queued(), chooser(three()), NOW + 21_000)) == Stay()
