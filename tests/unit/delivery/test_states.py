"""The table of leg states, and the diagram that is made from it."""

import pytest

from reach.delivery.states import TERMINAL, TRANSITIONS, may_follow, mermaid
from reach.envelope.ledger import OPEN_STATES, LegState


def test_every_state_has_a_line_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(LegState)
    reached, edge = {LegState.NEW}, [LegState.NEW]
    while edge:
        fresh = TRANSITIONS[edge.pop()] - reached
        reached |= fresh
        edge += fresh
    assert reached == set(LegState)


def test_what_is_not_open_is_the_end() -> None:
    assert set(LegState) - OPEN_STATES - {LegState.NEW} == TERMINAL


def test_every_open_leg_can_end_and_be_cancelled() -> None:
    for state in OPEN_STATES:
        assert {LegState.CANCELLED, LegState.EXPIRED} <= TRANSITIONS[state]


@pytest.mark.parametrize(
    ("before", "after", "may"),
    [
        (LegState.NEW, LegState.QUEUED, True),
        (LegState.NEW, LegState.RUNNING, False),
        (LegState.QUEUED, LegState.QUEUED, True),
        (LegState.RUNNING, LegState.QUEUED, False),
        (LegState.RETURNED, LegState.QUEUED, True),
        (LegState.WAITING, LegState.RUNNING, False),
        (LegState.PARKED, LegState.DONE, True),  # with the best answer, when nobody has answered its question
        (LegState.PARKED, LegState.QUEUED, False),
        (LegState.DONE, LegState.QUEUED, False),
    ],
)
def test_who_may_follow_whom(before: LegState, after: LegState, may: bool) -> None:
    assert may_follow(before, after) is may


def test_the_diagram_has_every_arrow() -> None:
    lines = mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    arrows = {tuple(line.strip().split(" --> ")) for line in lines[1:]}
    table = {(before.value, after.value) for before, reached in TRANSITIONS.items() for after in reached}
    assert arrows == table | {("[*]", "new")} | {(state.value, "[*]") for state in TERMINAL}
