"""A stage goes on as one."""

from reach.backend.steps import Plan, Record
from reach.delivery.staging import delayed, held_beside, longest, stages_of
from reach.envelope.ledger import Leg, LegState, Stage
from reach.routing.steps import Choice, Stay
from tests.contract.drive import head_of, new_id


def record(scope: str, **legs: LegState) -> Record:
    msg_id = new_id()
    numbered = {n: Leg(state) for n, state in enumerate(legs.values())}
    return Record(msg_id, head_of(msg_id, scope=scope), numbered)


def test_the_legs_of_a_stage_follow_those_of_the_one_before() -> None:
    assert stages_of((2, 0, 1)) == (Stage(0, 2, 2), Stage(2, 0, 0), Stage(2, 1, 1))
    assert stages_of(()) == ()


def test_all_that_are_held_in_a_stage_are_decided_for_together() -> None:
    whole = record("all", a=LegState.HELD, b=LegState.DONE, c=LegState.HELD, d=LegState.HELD)
    assert list(held_beside(whole, 0)) == [2, 3]
    assert held_beside(whole, 1) == {}


def test_who_is_held_in_a_line_goes_alone() -> None:
    assert held_beside(record("one", a=LegState.HELD), 0) == {}


def test_the_slowest_of_a_stage_says_how_long_a_run_may_take() -> None:
    choices = [Choice((Stay(),), max_process_ms=ms) for ms in (5, 9, 7)]
    assert longest(choices[0], choices[1:]).max_process_ms == 9


def test_a_leg_that_is_put_off_stays_its_agents() -> None:
    assert delayed(Plan("deliver", "a", max_inbox=5), 1_000) == Plan("delay", "a", wait_ms=1_000)
