"""fresh_eyes: whom a source, or a conversation of it, has met comes last; what routers remember of that is bounded."""

from random import Random

import pytest

from reach.envelope.registration import Beat
from reach.routing.decide import Chooser, decide
from reach.routing.index import CapabilityIndex
from reach.routing.strategies import Memory, meetings
from reach.routing.strategies.meetings import MET_MS, Familiar, Meetings
from tests.unit.routing.seen import NOW, add, message

AGENTS = ("a", "b", "c")


def asked(
    memory: Memory, conversation: str = "talk", source: str = "s", name: str = "", seed: int = 1
) -> dict[str, str]:
    """Who was chosen, under the key "", and why the others were not."""
    index = CapabilityIndex()
    for agent_id in AGENTS:
        add(index, agent_id, "work", beat=Beat(success_rate=1.0, avg_response_ms=1_000), concurrency=9)
    index.apply("route", "capability:work", b'{"strategy":"fresh_eyes"}')
    asks = message(conversation=conversation, source=source, name=name)
    why = decide(asks, None, Chooser(index=index, rng=Random(seed), memory=memory), NOW).why
    assert why.strategy == "fresh_eyes"
    return {"": why.chosen[0]} | {seen.agent: seen.reason for seen in why.candidates if seen.reason}


def test_each_question_of_a_conversation_comes_to_somebody_else_until_all_have_met_it() -> None:
    memory, had = Memory(), []
    for number in range(3):
        chosen = asked(memory, seed=number)[""]
        memory.meetings.note("s", "talk", chosen, NOW)
        had.append(chosen)
    assert sorted(had) == list(AGENTS)
    assert {asked(memory, seed=number)[""] for number in range(40)} == set(AGENTS), "by score among all"


def test_it_says_who_was_passed_over() -> None:
    memory = Memory()
    memory.meetings.note("s", "talk", "a", NOW)
    memory.meetings.note("s", "other", "b", NOW)
    assert asked(memory) == {"": "c", "a": "has met this conversation", "b": "has met this source"}


def test_where_the_source_has_met_all_the_conversation_decides() -> None:
    memory = Memory()
    for agent_id in AGENTS:
        memory.meetings.note("s", "other", agent_id, NOW)
    memory.meetings.note("s", "talk", "a", NOW)
    told = [asked(memory, seed=number) for number in range(40)]
    assert {one[""] for one in told} == {"b", "c"}
    assert all(one["a"] == "has met this conversation" for one in told)


def test_the_conversation_of_another_source_is_another_one() -> None:
    memory = Memory()
    for agent_id in ("a", "b"):
        memory.meetings.note("s", "talk", agent_id, NOW)
    assert {asked(memory, source="t", seed=number)[""] for number in range(40)} == set(AGENTS)


def test_replicas_of_a_source_have_one_memory_by_their_name() -> None:
    memory = Memory()
    for agent_id in ("a", "b"):
        memory.meetings.note("shop", "talk", agent_id, NOW)
    assert {asked(memory, source=f"shop-{number}", name="shop", seed=number)[""] for number in range(9)} == {"c"}


def test_after_an_hour_it_is_forgotten() -> None:
    memory = Memory()
    for agent_id in ("a", "b"):
        memory.meetings.note("s", "talk", agent_id, NOW - MET_MS - 1)
    assert {asked(memory, seed=number)[""] for number in range(40)} == set(AGENTS)


def test_the_same_memory_and_the_same_chance_make_the_same_choice() -> None:
    def choices() -> list[str]:
        memory = Memory()
        memory.meetings.note("s", "talk", "a", NOW)
        return [asked(memory, seed=number)[""] for number in range(20)]

    assert choices() == choices()


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "MAX_KEPT", 4)
    monkeypatch.setattr(meetings, "MAX_AGENTS", 2)
    known = Meetings()
    for agent_id in ("a", "b", "a", "c"):
        known.note("s", "talk", agent_id, NOW)
    assert known.of("s", "talk", NOW) == Familiar(frozenset({"a", "c"}), frozenset({"a", "c"}))
    for number in range(3):
        known.note(f"s{number}", "talk", "a", NOW)
    assert known.of("s", "talk", NOW) == Familiar(frozenset(), frozenset())
    assert known.of("s2", "talk", NOW) == Familiar(frozenset({"a"}), frozenset({"a"}))
    assert known.of("s2", "", NOW) == Familiar(frozenset({"a"}), frozenset({"a"}))


def test_an_older_moment_does_not_make_it_older() -> None:
    known = Meetings()
    known.note("s", "talk", "a", NOW)
    known.note("s", "talk", "a", NOW - MET_MS)
    assert known.of("s", "talk", NOW + MET_MS) == Familiar(frozenset({"a"}), frozenset({"a"}))
