"""The decision about a leg that has a best answer: one other agent, or the end."""

import pytest

from reach.envelope.ledger import Best, LegState
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Deliver, Stay
from tests.unit.routing.seen import NOW, add, chooser, finish, leg, message, silence, step


@pytest.fixture
def index() -> CapabilityIndex:
    made = CapabilityIndex()
    for agent_id in ("a", "b", "c"):
        add(made, agent_id, "work")
    return made


GUESS = Best(0.4, "ok", '{"status":"success","code":"ok"}', "{}", "a", "a.1", 5)


@pytest.mark.parametrize("state", [LegState.RETURNED, LegState.WAITING])
def test_whoever_gave_the_best_answer_is_not_asked_for_a_better_one(index: CapabilityIndex, state: LegState) -> None:
    """Not even where all others have been tried: those may be asked again."""
    asked = leg(state, agent="a", attempt=1, handed=True, core=GUESS.core, best=GUESS, tried=("b", "c", "a"))
    for seed in range(20):
        assert step(decide(message(), asked, chooser(index, seed), NOW)) in (Deliver("b"), Deliver("c"))
    silence(index, "b", "c")
    assert finish(decide(message(), asked, chooser(index), NOW)).last, "nobody waits for somebody who may be better"
    index.apply("gone", "a", b"")
    assert finish(decide(message(), asked, chooser(index), NOW)).last


def test_a_move_does_not_go_to_it_either(index: CapabilityIndex) -> None:
    index.apply("gone", "c", b"")
    waits = leg(LegState.QUEUED, agent="b", hand="1-1", attempt=1, handed=True, best=GUESS)
    assert step(decide(message(), waits, chooser(index), NOW)) == Stay()
