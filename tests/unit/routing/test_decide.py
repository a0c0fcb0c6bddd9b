"""The decision, case by case: a first send, a broadcast, what came back, what waits."""

from typing import Any

import pytest

from reach.envelope.ledger import LegState
from reach.envelope.message import Envelope, Scope, Source, Target, Traces
from reach.routing.decide import MAX_FANOUT, decide
from reach.routing.index import CapabilityIndex
from reach.routing.message import message_of
from reach.routing.steps import Comeback, Delay, Deliver, Finish, Seen, Stay
from tests.unit.routing.seen import DRAINING, NOW, add, chooser, finish, leg, message, silence, step, three

CORE = '{"status":"retryable","code":"handler.error"}'


@pytest.fixture
def index() -> CapabilityIndex:
    return three()


def policy(index: CapabilityIndex, text: bytes) -> None:
    index.apply("route", "capability:work", text)


# ---------------------------------------------------------------- a first send to one
def test_a_first_send_is_delivered_with_its_reasons(index: CapabilityIndex) -> None:
    policy(index, b'{"strategy":"round_robin"}')
    silence(index, "b")
    by = chooser(index)
    choice = decide(message(), None, by, NOW)
    assert step(choice) == Deliver("a")
    assert choice.why.strategy == "round_robin"
    assert choice.why.chosen == ("a",)
    assert choice.why.counts == {"matched": 3, "fit": 2, "ready": 1}
    assert choice.why.candidates == (Seen("a"), Seen("c"), Seen("b", "ready", "draining"))
    assert step(decide(message(), None, by, NOW)) == Deliver("c")


def test_the_longest_time_of_the_chosen_one_is_told() -> None:
    index = CapabilityIndex()
    add(index, "a", "work", max_process_ms=60_000)
    assert decide(message(), None, chooser(index), NOW).max_process_ms == 60_000


def test_nobody_offers_it_is_waited_for_and_then_told() -> None:
    by = chooser()
    waits, now = [], NOW
    while isinstance(found := step(decide(message(), leg(LegState.WAITING), by, now)), Delay):
        waits.append(found.wait_ms)
        now += found.wait_ms
    assert waits == [200, 200, 400, 800, 1_400]
    assert now == NOW + 3_000
    assert isinstance(found, Finish)
    assert (found.code, found.details) == ("route.not_found", {"pattern": "capability:work"})


@pytest.mark.parametrize("scope", ["one", "all"])
@pytest.mark.parametrize(
    ("total_ms", "ends_ms", "code"),
    [
        (1_500, 1_500, "timeout.total"),
        (3_000, 3_000, "timeout.total"),
        (3_001, 3_000, "route.not_found"),
        (3_200, 3_000, "route.not_found"),
    ],
)
def test_what_nobody_offers_is_waited_for_through_all_of_network_ms(
    scope: Scope, total_ms: int, ends_ms: int, code: str
) -> None:
    asked = message(scope=scope, total_at_ms=NOW + total_ms)
    by, now = chooser(), NOW
    while isinstance(found := step(decide(asked, leg(LegState.WAITING), by, now)), Delay):
        now += found.wait_ms
    assert now == NOW + ends_ms
    assert isinstance(found, Finish)
    assert found.code == code
    if code == "timeout.total":
        assert found.details == {"state": "waiting"}
        assert found.message == "nobody was found within total_ms, which is no longer than network_ms"


def test_nobody_fits_is_waited_for_until_shortly_before_total(index: CapabilityIndex) -> None:
    silence(index, "a", "b")
    index.apply("gone", "c", b"")
    by = chooser(index)
    waits, now = [], NOW
    while isinstance(found := step(decide(message(), leg(LegState.WAITING), by, now)), Delay):
        waits.append(found.wait_ms)
        index.beat("a", "a.1", now, DRAINING)
        index.beat("b", "b.1", now, DRAINING)
        now += found.wait_ms
    assert waits[:6] == [200, 200, 400, 800, 1_600, 2_000]
    assert max(waits) == 2_000
    assert now == NOW + 29_500
    assert isinstance(found, Finish)
    assert found.code == "route.no_candidate"
    assert found.details["candidates"] == 2
    assert found.details["reasons"][0] == {"agent": "a", "filter": "ready", "reason": "draining"}


def test_a_short_total_still_leaves_time_to_say_why(index: CapabilityIndex) -> None:
    silence(index, "a", "b", "c")
    short = message(total_at_ms=NOW + 1_000, first_at_ms=NOW + 1_000)
    assert step(decide(short, None, chooser(index), NOW + 800)) == Delay(100)
    assert finish(decide(short, None, chooser(index), NOW + 900)).code == "route.no_candidate"


def test_a_loop_is_told_at_once(index: CapabilityIndex) -> None:
    end = finish(decide(message(hops=frozenset("abc")), None, chooser(index), NOW))
    assert (end.code, end.details["candidates"]) == ("loop.detected", 3)


def test_somebody_who_got_past_the_path_is_waited_for(index: CapabilityIndex) -> None:
    silence(index, "c")
    assert isinstance(step(decide(message(hops=frozenset("ab")), None, chooser(index), NOW)), Delay)


def test_full_inboxes_are_waited_for_unless_the_policy_rejects(index: CapabilityIndex) -> None:
    full: dict[str, Any] = {"unfit": {"a": "full", "b": "full", "c": "gone"}}
    assert isinstance(step(decide(message(), None, chooser(index), NOW, **full)), Delay)
    policy(index, b'{"on_full":"reject"}')
    end = finish(decide(message(), None, chooser(index), NOW, **full))
    assert (end.code, end.retry_after_ms) == ("overloaded", 1_000)
    gone: dict[str, Any] = {"unfit": dict.fromkeys("abc", "gone")}
    assert isinstance(step(decide(message(), None, chooser(index), NOW, **gone)), Delay)


def test_where_only_rate_limits_hold_it_up_it_waits_for_the_first_turn(index: CapabilityIndex) -> None:
    limited: dict[str, Any] = {"limited": {"a": 7_000, "b": 4_000, "c": 9_000}}
    assert step(decide(message(), None, chooser(index), NOW, **limited)) == Delay(2_000)  # somebody else may come
    limited = {"limited": {"a": 7_000, "b": 1_500, "c": 9_000}}
    assert step(decide(message(), None, chooser(index), NOW, **limited)) == Delay(1_500)
    assert step(decide(message(), None, chooser(index), NOW, limited={"a": 7_000, "b": 4_000})) == Deliver("c")
    silence(index, "c")  # who may be back at any moment is looked for as usual
    assert step(decide(message(), None, chooser(index), NOW, limited={"a": 7_000, "b": 4_000})) == Delay(200)
    full: dict[str, Any] = {"limited": {"a": 7_000}, "unfit": {"b": "full"}}
    assert step(decide(message(), None, chooser(index), NOW, **full)) == Delay(200)


def test_a_turn_that_comes_too_late_is_told(index: CapabilityIndex) -> None:
    for asked, wait_ms in ((message(), 29_500), (message(first_at_ms=NOW + 2_000), 2_000)):
        end = finish(decide(asked, None, chooser(index), NOW, limited=dict.fromkeys("abc", wait_ms)))
        assert (end.code, end.retry_after_ms) == ("overloaded", wait_ms)
        assert end.details["candidates"] == 3
    handed = leg(LegState.WAITING, handed=True)
    asked = message(first_at_ms=NOW + 2_000)
    assert step(decide(asked, handed, chooser(index), NOW, limited=dict.fromkeys("abc", 2_000))) == Delay(2_000)


def test_with_on_full_reject_nobody_waits_for_a_turn_but_who_had_one(index: CapabilityIndex) -> None:
    policy(index, b'{"on_full":"reject"}')
    limited: dict[str, Any] = {"limited": dict.fromkeys("abc", 4_000)}
    assert finish(decide(message(), None, chooser(index), NOW, **limited)).code == "overloaded"
    assert step(decide(message(), RETURNED, chooser(index), NOW, **limited)) == Delay(2_000)
    limited = {"limited": dict.fromkeys("abc", 40_000)}
    assert finish(decide(message(), RETURNED, chooser(index), NOW, **limited)).last


def test_a_leg_of_a_broadcast_waits_for_its_own_agents_turn(index: CapabilityIndex) -> None:
    steps = decide(message(scope="all"), None, chooser(index), NOW, limited={"b": 4_000, "c": 90_000}).steps
    assert steps == (Deliver("a"), Delay(2_000, "b"), Delay(2_000, "c"))
    waiting = leg(LegState.WAITING, agent="b")
    asked = message(scope="all", first_at_ms=NOW + 9_000)
    assert step(decide(asked, waiting, chooser(index), NOW, limited={"b": 4_000})) == Delay(2_000, "b")


@pytest.mark.parametrize(
    ("now", "ttl", "code", "state"),
    [(NOW + 30_000, 30_000, "timeout.total", "new"), (NOW + 500, 500, "ttl.expired", "new")],
)
def test_what_comes_too_late_ends(index: CapabilityIndex, now: int, ttl: int, code: str, state: str) -> None:
    end = finish(decide(message(first_at_ms=NOW + ttl), None, chooser(index), now))
    assert (end.code, end.details) == (code, {"state": state})


def test_a_leg_that_was_handed_over_once_has_no_ttl_any_more(index: CapabilityIndex) -> None:
    asked, now = message(first_at_ms=NOW + 500), NOW + 600
    assert finish(decide(asked, leg(LegState.WAITING), chooser(index), now)).code == "ttl.expired"
    assert isinstance(step(decide(asked, leg(LegState.WAITING, handed=True), chooser(index), now)), Deliver)


def test_what_is_not_to_start_yet_waits(index: CapabilityIndex) -> None:
    later = message(start_at_ms=NOW + 700, first_at_ms=NOW + 9_000, total_at_ms=NOW + 9_000)
    assert step(decide(later, None, chooser(index), NOW)) == Delay(700)


# ---------------------------------------------------------------- what came back
RETURNED = leg(LegState.RETURNED, agent="a", hand="1-1", attempt=1, handed=True, tried=("a",), core=CORE)


def test_a_returned_leg_waits_as_the_rules_of_retrying_say(index: CapabilityIndex) -> None:
    assert step(decide(message(), RETURNED, chooser(index), NOW, retry=Comeback(1_234))) == Delay(1_234)


def test_a_returned_leg_ends_with_its_own_answer(index: CapabilityIndex) -> None:
    end = finish(decide(message(), RETURNED, chooser(index), NOW, retry=Comeback(ends=True, dead=True)))
    assert (end.last, end.dead) == (True, True)
    lost = finish(decide(message(), leg(LegState.RETURNED), chooser(index), NOW, retry=Comeback(ends=True)))
    assert (lost.code, lost.last, lost.details) == ("agent.lost", False, {"state": "returned"})


def test_a_returned_leg_goes_at_once_to_somebody_fresh(index: CapabilityIndex) -> None:
    for seed in range(20):
        assert step(decide(message(), RETURNED, chooser(index, seed), NOW)) in (Deliver("b"), Deliver("c"))


def test_elsewhere_is_never_the_same_again(index: CapabilityIndex) -> None:
    silence(index, "b", "c")
    assert step(decide(message(), RETURNED, chooser(index), NOW)) == Deliver("a")
    assert finish(decide(message(), RETURNED, chooser(index), NOW, retry=Comeback(elsewhere=True))).last
    index.apply("state", "b/b.1", b"{}", NOW)
    assert step(decide(message(), RETURNED, chooser(index), NOW, retry=Comeback(elsewhere=True))) == Deliver("b")


def test_a_leg_whose_agent_is_gone_waits_for_another_until_total_and_keeps_its_answer() -> None:
    by, waiting = chooser(), leg(LegState.WAITING, agent="a", attempt=1, handed=True, core=CORE)
    assert step(decide(message(), waiting, by, NOW + 10_000)) == Delay(2_000)
    assert finish(decide(message(), waiting, by, NOW + 29_500)).last
    unanswered = leg(LegState.RETURNED, agent="a")
    assert step(decide(message(), unanswered, by, NOW + 10_000)) == Delay(2_000)
    assert finish(decide(message(), unanswered, by, NOW + 29_500)).code == "route.no_candidate"


@pytest.mark.parametrize("state", [LegState.RUNNING, LegState.DONE, LegState.PARKED])
def test_other_states_are_left_alone(index: CapabilityIndex, state: LegState) -> None:
    assert step(decide(message(), leg(state), chooser(index), NOW)) == Stay()


def test_one_that_was_held_in_its_line_goes_or_waits_for_somebody_or_ends(index: CapabilityIndex) -> None:
    held = leg(LegState.HELD)
    assert isinstance(step(decide(message(), held, chooser(index), NOW)), Deliver)
    assert isinstance(step(decide(message(), held, chooser(), NOW)), Delay)
    assert finish(decide(message(), held, chooser(index), NOW + 30_000)).code == "timeout.total"


# ---------------------------------------------------------------- scope all
def to_all(**fields: Any) -> Any:
    return message(scope="all", **fields)


def test_everybody_gets_a_leg_and_who_cannot_now_waits(index: CapabilityIndex) -> None:
    silence(index, "b")
    add(index, "d", "work", beat=None)
    choice = decide(to_all(), None, chooser(index), NOW)
    assert choice.steps == (Deliver("a"), Delay(200, "b"), Deliver("c"))
    assert choice.why.strategy == "broadcast_all"
    assert choice.why.counts == {"matched": 4, "fit": 3, "alive": 1}


def test_too_many_are_told(index: CapabilityIndex) -> None:
    index.apply("meta", "max_fanout", b"2")
    end = finish(decide(to_all(), None, chooser(index), NOW))
    assert (end.code, end.details) == ("target.too_many", {"matched": 3, "max_fanout": 2})
    assert MAX_FANOUT == 1_000


def test_no_setting_allows_more_legs_than_one_step_can_write(
    index: CapabilityIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reach.routing.decide.MOST_FANOUT", 2)
    index.apply("meta", "max_fanout", b"1000000")
    end = finish(decide(to_all(), None, chooser(index), NOW))
    assert (end.code, end.details) == ("target.too_many", {"matched": 3, "max_fanout": 2})


def test_a_broadcast_that_is_not_to_start_yet_has_its_legs(index: CapabilityIndex) -> None:
    silence(index, "b")
    later = to_all(start_at_ms=NOW + 700, first_at_ms=NOW + 9_000, total_at_ms=NOW + 9_000)
    assert decide(later, None, chooser(index), NOW).steps == (Delay(700, "a"), Delay(700, "b"), Delay(700, "c"))
    assert decide(later, None, chooser(), NOW).steps == (Delay(700),)


def test_a_large_broadcast_tells_only_twenty_candidates() -> None:
    index = CapabilityIndex()
    for at in range(50):
        add(index, f"a{at:02}", "work")
    choice = decide(to_all(), None, chooser(index), NOW)
    assert len(choice.steps) == 50
    assert len(choice.why.candidates) == len(choice.why.chosen) == 20


def test_a_broadcast_to_nobody_waits_network_ms_on_leg_0(index: CapabilityIndex) -> None:
    asked = to_all()
    assert step(decide(asked, None, chooser(), NOW)) == Delay(200)
    assert finish(decide(asked, leg(LegState.WAITING), chooser(), NOW + 3_000)).code == "route.not_found"
    now = NOW + 20_000
    assert finish(decide(to_all(start_at_ms=now - 3_000), None, chooser(index), now)).code == "route.no_candidate"


def test_who_comes_in_time_takes_leg_0(index: CapabilityIndex) -> None:
    policy(index, b'{"strategy":"broadcast_all"}')
    assert isinstance(step(decide(to_all(), leg(LegState.WAITING), chooser(index), NOW + 1_000)), Deliver)


def test_a_leg_of_a_broadcast_keeps_its_agent(index: CapabilityIndex) -> None:
    waiting = leg(LegState.WAITING, agent="b", tried=("b",), core=CORE, handed=True)
    assert step(decide(to_all(), waiting, chooser(index), NOW)) == Deliver("b")
    silence(index, "b")
    assert step(decide(to_all(), waiting, chooser(index), NOW)) == Delay(200, "b")
    assert finish(decide(to_all(), waiting, chooser(index), NOW + 29_500)).last
    returned = leg(LegState.RETURNED, agent="b", core=CORE)
    assert step(decide(to_all(), returned, chooser(index), NOW, retry=Comeback(900))) == Delay(900, "b")
    index.apply("gone", "b", b"")
    end = finish(decide(to_all(), waiting, chooser(index), NOW))
    assert (end.code, end.details) == ("agent.lost", {"state": "waiting"})


# ---------------------------------------------------------------- after the registry was lost
def test_nothing_ends_for_want_of_somebody_who_may_be_coming_back(index: CapabilityIndex) -> None:
    index.apply("gone", "b", b"")
    index.settling_until_ms = NOW + 20_000
    now = NOW + 19_900
    late = leg(LegState.WAITING)
    lost = leg(LegState.WAITING, agent="b")
    nobody = message("capability:nobody")
    assert step(decide(nobody, None, chooser(index), NOW + 4_000)) == Delay(500)
    assert step(decide(nobody, late, chooser(index), now)) == Delay(100)
    assert step(decide(message("capability:nobody", scope="all"), None, chooser(index), now)) == Delay(100)
    assert step(decide(to_all(), lost, chooser(index), now)) == Delay(500, "b")
    assert isinstance(step(decide(message(hops=frozenset("ac")), None, chooser(index), NOW)), Delay)
    now = NOW + 20_000
    assert finish(decide(nobody, late, chooser(index), now)).code == "route.not_found"
    assert finish(decide(to_all(), lost, chooser(index), now)).code == "agent.lost"
    index.settling_until_ms = NOW
    assert finish(decide(message(hops=frozenset("ac")), None, chooser(index), NOW)).code == "loop.detected"


def test_a_loss_makes_nobody_wait_beyond_total() -> None:
    by = chooser()
    by.index.settling_until_ms = NOW + 60_000
    asked = message(total_at_ms=NOW + 5_000, first_at_ms=NOW + 5_000)
    assert step(decide(asked, leg(LegState.WAITING), by, NOW + 4_500)) == Delay(500)
    assert finish(decide(asked, leg(LegState.WAITING), by, NOW + 5_000)).code == "timeout.total"


# ---------------------------------------------------------------- the message
def test_a_message_is_made_of_an_envelope() -> None:
    envelope = Envelope(
        msg_id="a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f",
        type="event",
        timestamp=1,
        source=Source(agent_id="s", zone="z"),
        target=Target(pattern="group:g", scope="all"),
        traces=Traces(previous_hops=("x", "y")),
    )
    made = message_of(
        envelope,
        env="prod",
        partition=3,
        start_at_ms=1,
        first_at_ms=2,
        total_at_ms=3,
        network_ms=4,
        replies_to="r",
    )
    assert (made.pattern.name, made.scope, made.type, made.schema, made.zone) == ("g", "all", "event", None, "z")
    assert (made.env, made.partition, made.hops, made.replies_to) == ("prod", 3, frozenset("xy"), "r")
    assert (made.start_at_ms, made.first_at_ms, made.total_at_ms, made.network_ms) == (1, 2, 3, 4)
