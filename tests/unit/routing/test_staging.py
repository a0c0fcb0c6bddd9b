"""process_order: who of a broadcast is in which stage."""

from typing import Any

import pytest

from reach.envelope.ledger import LegState
from reach.envelope.registration import Beat
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.pattern import parse
from reach.routing.steps import Choice, Delay, Deliver, Finish, Hold, Observe
from tests.unit.routing.seen import DRAINING, NOW, add, chooser, finish, leg, message, silence


@pytest.fixture
def index() -> CapabilityIndex:
    """draft-1, draft-2 and both-1 draft, review-1 and both-1 review, watch-1 does neither; all are in the group."""
    made = CapabilityIndex()
    for agent_id, *capabilities in (
        ("draft-1", "draft"),
        ("draft-2", "draft"),
        ("both-1", "draft", "review"),
        ("review-1", "review"),
        ("watch-1", "watch"),
    ):
        add(made, agent_id, *capabilities, groups=("crew",))
    return made


def asked(*stages: tuple[str, ...], pattern: str = "group:crew", **fields: Any) -> Message:
    order = tuple(tuple(map(parse, stage)) for stage in stages)
    return message(pattern, scope="all", stages=order, **fields)


def fan_out(index: CapabilityIndex, *stages: tuple[str, ...], **fields: Any) -> Choice:
    return decide(asked(*stages, **fields), None, chooser(index), NOW)


def policy(index: CapabilityIndex) -> None:
    index.apply("route", "group:crew", b'{"on_stage_failed":"continue"}')


def test_the_first_stage_begins_and_the_others_are_held(index: CapabilityIndex) -> None:
    choice = fan_out(index, ("capability:draft",), ("capability:review",))
    assert choice.stages == (3, 1)
    first = {step.agent for step in choice.steps[:3] if isinstance(step, Deliver)}
    # who is in two stages belongs to the first, who is in none observes
    assert first == {"draft-1", "draft-2", "both-1"}
    assert choice.steps[3:] == (Hold("review-1"), Observe("watch-1"))


def test_a_stage_has_all_whom_one_of_its_patterns_means(index: CapabilityIndex) -> None:
    choice = fan_out(index, ("agent_id:review-1", "agent_id:draft-1"), ("agent_id:watch-1", "agent_id:review-1"))
    assert choice.stages == (2, 1)
    assert choice.steps[2] == Hold("watch-1")


def test_nobody_is_added_by_a_stage(index: CapabilityIndex) -> None:
    choice = fan_out(index, ("capability:draft",), ("agent_id:watch-1",), pattern="capability:draft")
    assert choice.stages == (3, 0)
    assert all(isinstance(step, Deliver) for step in choice.steps)


def test_who_cannot_just_now_is_in_its_stage_all_the_same(index: CapabilityIndex) -> None:
    silence(index, "draft-1", "review-1")
    choice = fan_out(index, ("agent_id:draft-1",), ("agent_id:review-1",))
    assert isinstance(choice.steps[0], Delay)
    assert choice.steps[1] == Hold("review-1")


def test_what_is_not_to_go_before_a_moment_waits_in_its_order(index: CapabilityIndex) -> None:
    choice = fan_out(index, ("agent_id:draft-1",), ("agent_id:review-1",), start_at_ms=NOW + 9_000)
    assert choice.steps[:2] == (Delay(9_000, "draft-1"), Hold("review-1"))


def test_an_empty_first_stage_ends_all_behind_it(index: CapabilityIndex) -> None:
    choice = fan_out(index, ("agent_id:nobody",), ("capability:draft",), ("capability:review",))
    ends = [step for step in choice.steps if isinstance(step, Finish)]
    assert len(ends) == 4
    assert {(end.code, end.details["stage"], end.details["empty"]) for end in ends} == {("stage.failed", 0, True)}
    assert {end.agent for end in ends} == {"draft-1", "draft-2", "both-1", "review-1"}
    assert choice.steps[4:] == (Observe("watch-1"),)


def test_past_an_empty_first_stage_a_policy_goes_on(index: CapabilityIndex) -> None:
    policy(index)
    choice = fan_out(index, ("agent_id:nobody",), ("agent_id:draft-1",), ("capability:review",))
    assert choice.stages == (0, 1, 2)
    assert choice.steps[:3] == (Deliver("draft-1"), Hold("both-1"), Hold("review-1"))


def test_an_order_that_has_no_part_for_anybody_ends_at_once(index: CapabilityIndex) -> None:
    end = finish(fan_out(index, ("agent_id:nobody",)))
    assert (end.code, end.details["empty"], end.agent) == ("stage.failed", True, "")


def test_whoever_comes_too_late_is_in_no_stage_and_a_new_round_helps() -> None:
    empty = CapabilityIndex()
    by = chooser(empty)
    order = asked(("agent_id:a",), pattern="group:crew")
    first = decide(order, None, by, NOW)
    assert isinstance(first.steps[0], Delay)
    assert first.stages == ()
    add(empty, "a", "work", groups=("crew",), beat=Beat())
    end = finish(decide(order, leg(LegState.WAITING), by, NOW + 500))
    assert end.code == "route.no_candidate"
    index = CapabilityIndex()
    assert finish(decide(order, leg(LegState.WAITING), chooser(index), NOW + 3_000)).code == "route.not_found"


def test_a_leg_whose_stage_begins_goes_to_its_own_agent(index: CapabilityIndex) -> None:
    held = leg(LegState.HELD, agent="review-1", handed=True)
    one = asked()
    assert decide(one, held, chooser(index), NOW).steps == (Deliver("review-1"),)
    index.apply("state", "review-1/review-1.1", DRAINING, NOW)
    assert isinstance(decide(one, held, chooser(index), NOW).steps[0], Delay)
    index.apply("gone", "review-1", b"")
    assert finish(decide(one, held, chooser(index), NOW)).code == "agent.lost"
