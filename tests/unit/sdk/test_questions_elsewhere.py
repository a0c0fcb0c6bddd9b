"""`ctx.input_required` where several agents offer one capability: an answer is for the agent that has asked."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from reach import Agent, Context, Reject
from reach.backend.bounds import MAX_ANSWERS
from reach.sdk.questions import Parked, Questions
from reach.testing import TestReach


class Desk:
    """Agents that offer one capability, and each asks for something else; what they did."""

    def __init__(self, *names: str) -> None:
        self.agents = {name: self._agent(name) for name in names}
        self.runs: list[str] = []
        self.problems: list[Exception] = []

    def _agent(self, name: str) -> Agent:
        agent = Agent(name)

        @agent.capability("ask")
        async def ask(ctx: Context) -> list[Any]:
            self.runs.append(name)
            answer = await ctx.input_required(f"question of {name}")
            if self.problems:
                raise self.problems.pop()
            return [name, answer]

        return agent


async def test_an_answer_goes_to_the_agent_that_has_asked() -> None:
    desk = Desk("a", "b", "c")
    async with TestReach(*desk.agents.values()) as bus:
        for _ in range(8):
            desk.runs.clear()
            handle = await bus.send("ask")
            await bus.settle()
            await handle.answer("yes")
            await bus.settle()
            assert desk.runs == [desk.runs[0]] * 2
            assert (await handle.receipt(0.01)).output == [desk.runs[0], "yes"]


async def test_also_in_a_retry() -> None:
    desk = Desk("a", "b", "c")
    async with TestReach(*desk.agents.values()) as bus:
        for _ in range(8):
            desk.runs.clear()
            desk.problems = [ValueError("not now")]
            handle = await bus.send("ask")
            await bus.settle()
            await handle.answer("yes")
            await bus.advance(3)
            assert desk.runs == [desk.runs[0]] * 3
            assert (await handle.receipt(0.01)).output == [desk.runs[0], "yes"]


async def test_another_agent_that_comes_after_it_asks_anew() -> None:
    """Its own question, also in the place of one that somebody else has asked."""
    desk = Desk("a", "b")
    async with TestReach(*desk.agents.values()) as bus:
        handle = await bus.send("ask")
        await bus.settle()
        first = desk.runs[0]
        second = "b" if first == "a" else "a"
        await bus.kill(desk.agents[first])
        await bus.advance(20)
        await handle.answer(f"to {first}")
        await bus.advance(5)
        assert desk.runs == [first, second]
        assert (await handle.status()).legs[0].state == "parked"
        await handle.answer(f"to {second}")
        await bus.settle()
        receipt = await handle.receipt(0.01)
    assert (receipt.output, receipt.attempts) == ([second, f"to {second}"], 1)


# ---------------------------------------------------------------- which answer is whose, without a bus


def asked(agent_id: str, answers: Sequence[tuple[str, str, object]], *prompts: object, kind: Any = Any) -> list[Any]:
    """What this agent is given for its prompts, where these (agent, prompt, value) were answered before."""
    given = [
        {"prompt": hashlib.sha1(msgspec.json.encode(prompt)).hexdigest(), "value": value, "agent": agent}
        for agent, prompt, value in answers
    ]
    questions = Questions(msgspec.json.encode({"state": None, "answers": given}), agent_id)
    return [questions.ask(prompt, kind, None, None) for prompt in prompts]


BOTH = (("a", "name?", "ann"), ("b", "age?", 41), ("a", "sure?", True))


def test_each_agent_finds_its_own_answers_in_order() -> None:
    assert asked("a", BOTH, "name?", "sure?") == ["ann", True]
    assert asked("b", BOTH, "age?") == [41]


def test_an_equal_question_of_another_agent_need_not_be_asked_again() -> None:
    assert asked("c", BOTH, "name?", "sure?") == ["ann", True]


def test_what_does_not_fit_its_own_question_is_refused_all_the_same() -> None:
    with pytest.raises((Reject, Parked)) as refused:
        asked("b", BOTH, "height?")
    assert isinstance(refused.value, Reject)
    assert refused.value.code == "another_question"


def test_an_answer_to_another_agent_that_does_not_fit_is_asked_for_anew() -> None:
    with pytest.raises(Parked) as parked:
        asked("b", [("a", "how many?", "many")], "how many?", kind=int)
    assert parked.value.prompt == b'"how many?"'
    with pytest.raises(Reject) as refused:
        asked("a", [("a", "how many?", "many")], "how many?", kind=int)
    assert refused.value.code == "answer_unfit"
    assert asked("b", [("a", "how many?", "many"), ("b", "how many?", 3)], "how many?", kind=int) == [3]


def test_answers_to_others_count_as_well() -> None:
    """Else two agents that take a message from each other would ask for ever."""
    others = [("a", str(number), True) for number in range(MAX_ANSWERS)]
    with pytest.raises(Reject) as refused:
        asked("b", others, "one more?")
    assert refused.value.code == "too_many_questions"


def test_an_answer_from_before_its_agent_was_kept_is_ones_own() -> None:
    assert asked("b", [("", "name?", "ann")], "name?") == ["ann"]
    with pytest.raises(Reject):
        asked("b", [("", "name?", "ann")], "age?")
