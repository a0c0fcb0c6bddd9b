"""The decision about a leg that has a best answer, or answers to what its handler has asked: who is to have it, or the end."""

import msgspec
import pytest

from reach.envelope.ledger import Best, Given, LegState
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Comeback, Deliver, Stay
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


# ---------------------------------------------------------------- the answers to what a handler has asked

ANSWERS = (Given("p1", "1", "c"), Given("p2", "2", "b"))


@pytest.mark.parametrize("state", [LegState.RETURNED, LegState.WAITING])
@pytest.mark.parametrize("tried", [(), ("b",), ("b", "a")])
def test_it_goes_to_the_agent_whose_question_was_answered_last(
    index: CapabilityIndex, state: LegState, tried: tuple[str, ...]
) -> None:
    answered = leg(state, agent="a", attempt=1, handed=True, answers=ANSWERS, tried=tried)
    choices = [decide(message(), answered, chooser(index, seed), NOW) for seed in range(20)]
    assert {step(choice) for choice in choices} == {Deliver("b")}
    assert {seen.reason for seen in choices[0].why.candidates if seen.filter == "answered"} == {"the answers are to b"}


def test_to_others_where_that_one_cannot_take_it(index: CapabilityIndex) -> None:
    answered = leg(LegState.RETURNED, agent="b", handed=True, answers=ANSWERS)
    unfit = [decide(message(), answered, chooser(index, seed), NOW, unfit={"b": "full"}) for seed in range(20)]
    silence(index, "b")
    silent = [decide(message(), answered, chooser(index, seed), NOW) for seed in range(20)]
    assert {step(choice) for choice in unfit} == {step(choice) for choice in silent} == {Deliver("a"), Deliver("c")}


def test_answers_draw_nothing_to_where_it_is_barred_from(index: CapabilityIndex) -> None:
    elsewhere = leg(LegState.RETURNED, agent="b", attempt=1, handed=True, answers=ANSWERS, tried=("b",))
    best = leg(
        LegState.RETURNED, agent="b", handed=True, answers=ANSWERS, best=msgspec.structs.replace(GUESS, agent="b")
    )
    for seed in range(20):
        choice = decide(message(), elsewhere, chooser(index, seed), NOW, retry=Comeback(elsewhere=True))
        assert step(choice) in (Deliver("a"), Deliver("c"))
        assert step(decide(message(), best, chooser(index, seed), NOW)) in (Deliver("a"), Deliver("c"))


def test_an_answer_of_nobody_known_draws_it_nowhere(index: CapabilityIndex) -> None:
    old = leg(LegState.RETURNED, agent="b", handed=True, answers=(Given("p1", "1"),))
    assert {step(decide(message(), old, chooser(index, seed), NOW)) for seed in range(20)} > {Deliver("b")}
