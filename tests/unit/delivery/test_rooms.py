"""What is waited for where nobody has room, and what a bound of an inbox admits. Pure."""

import msgspec
import pytest

from reach.backend.steps import Again, Plan, RouteResult, Send, WorkEntry
from reach.delivery.inflight import bounded
from reach.delivery.planning import plan_of
from reach.delivery.rooms import MAX_ROOMS, not_asked, refused_by, waiting_for
from reach.envelope.ledger import LegState
from reach.envelope.registration import RoutePolicy
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Choice, Delay, Deliver, Move, Observe, Seen, Step, Why
from tests.contract.drive import head_of, new_id
from tests.unit.routing.seen import NOW, add

ENTRY = WorkEntry("again", 0, "again", "1-0", {})
A, B = Plan("deliver", "a", max_agent=1), Plan("deliver", "b", max_agent=1)
WAITS = Plan("delay", wait_ms=200)


def send(*plans: Plan, scope: str = "one") -> Send:
    msg_id = new_id()
    return Send(ENTRY, msg_id, head_of(msg_id, scope=scope), plans, b"")


def again(plan: Plan) -> Again:
    return Again(ENTRY, new_id(), 0, "0", LegState.WAITING, 0, plan)


def known(**slots: int) -> CapabilityIndex:
    index = CapabilityIndex()
    for agent_id, concurrency in slots.items():
        add(index, agent_id, "work", concurrency=concurrency)
    return index


@pytest.mark.parametrize("decision", [send(A), again(A)])
@pytest.mark.parametrize(
    ("verdict", "told", "found"),
    [("full", "", True), ("full", "share", True), ("full", "agent", True), ("full", "env", False), ("gone", "", False)],
)
def test_a_hand_over_that_found_no_room_is_waited_for(
    decision: Send | Again, verdict: str, told: str, found: bool
) -> None:
    result = RouteResult(verdict, known=told)  # type: ignore[arg-type]
    assert refused_by(decision, result) == ({"a": A} if found else {})


def test_a_move_is_not_waited_for() -> None:
    assert refused_by(again(Plan("move", "a")), RouteResult("full")) == {}


def test_only_a_wait_is_ended_by_room() -> None:
    rooms = {"a": A, "b": B}
    waits = waiting_for(again(WAITS), rooms)
    assert isinstance(waits, Again)
    assert waits.plan == msgspec.structs.replace(WAITS, rooms=(A, B))
    sent = waiting_for(send(WAITS), rooms)
    assert isinstance(sent, Send)
    assert sent.plans[0].rooms == (A, B)
    for plan in (A, Plan("stay"), Plan("finish")):
        unchanged = waiting_for(again(plan), rooms)
        assert isinstance(unchanged, Again)
        assert unchanged.plan is plan


def test_the_leg_of_a_broadcast_waits_for_its_own_agent_only() -> None:
    waits = waiting_for(again(Plan("delay", "b", wait_ms=200)), {"a": A, "b": B})
    assert isinstance(waits, Again)
    assert waits.plan.rooms == (B,)
    whole = send(Plan("delay", "a"), scope="all")
    assert waiting_for(whole, {"a": A}) is whole


def test_no_more_are_waited_for_than_a_step_can_ask() -> None:
    rooms = {f"a{n}": Plan("deliver", f"a{n}") for n in range(2 * MAX_ROOMS)}
    waits = waiting_for(again(WAITS), rooms)
    assert isinstance(waits, Again)
    assert len(waits.plan.rooms) == MAX_ROOMS


def test_who_fitted_as_well_is_waited_for_too() -> None:
    seen = (Seen("a"), Seen("b"), Seen("c", "capacity", "its inbox is full"))
    found = not_asked(
        Choice((Deliver("a"),), Why(candidates=seen)), None, known(a=1, b=2), RoutePolicy(max_inbox=0), NOW
    )
    assert found == {agent: Plan("deliver", agent, max_inbox=1, max_agent=n) for agent, n in (("a", 1), ("b", 2))}
    assert not_asked(Choice((Delay(200),), Why(candidates=seen)), None, known(), RoutePolicy(), NOW) == {}
    assert not_asked(None, None, known(), RoutePolicy(), NOW) == {}


def test_what_an_agent_may_have_bounds_the_room_that_is_waited_for() -> None:
    waits = msgspec.structs.replace(WAITS, rooms=(A, Plan("deliver", "b")))
    plan = bounded(again(waits), {"max_inflight_per_agent": 3}.get, 1)
    assert isinstance(plan, Again)
    assert [room.max_agent for room in plan.plan.rooms] == [1, 3]


@pytest.mark.parametrize("step", [Deliver("a"), Move("a"), Observe("a")])
def test_a_greater_bound_is_never_planned_as_a_smaller_one(step: Step) -> None:
    index = known(a=4)
    plans = [plan_of(step, None, index, RoutePolicy(max_inbox=most), NOW) for most in range(3)]
    assert [(plan.max_inbox, plan.max_agent) for plan in plans] == [(1, 4), (1, 0), (2, 0)]


def test_without_a_policy_the_setting_of_the_env_counts() -> None:
    index = known(a=4)
    index.apply("meta", "max_inbox", b"2")
    assert plan_of(Deliver("a"), None, index, RoutePolicy(), NOW) == Plan("deliver", "a", max_inbox=2)
