"""Every strategy keeps the contract: a part of those who fit, never nobody, one for scope one; and each its own promise."""

import math
from collections import Counter
from random import Random

import pytest

from reach.envelope.message import Scope
from reach.envelope.registration import Beat, RoutePolicy
from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.index import CapabilityIndex
from reach.routing.strategies import DEFAULTS, STRATEGIES, Memory, strategy_for
from reach.routing.strategies import port as port_module
from tests.unit.routing.seen import NOW, add, message


def view(**weights: float) -> View:
    return View(now_ms=NOW, alive_since_ms=NOW - 15_000, policy=RoutePolicy(weights=weights))


def agents(count: int, **declared: object) -> list[Agent]:
    index = CapabilityIndex()
    for at in range(count):
        add(index, f"a{at}", "work", **declared)  # type: ignore[arg-type]
    return list(index.agents.values())


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_contract(name: str, count: int) -> None:
    candidates, memory, rng = agents(count), Memory(), Random(count)
    for _ in range(20):
        before = list(candidates)
        chosen = STRATEGIES[name](candidates, message(), view(), memory, rng)
        assert candidates == before, "the candidates are left alone"
        assert len({agent.agent_id for agent in chosen}) == len(chosen) >= 1
        assert all(agent in candidates for agent in chosen)
        if name != DEFAULTS["all"]:
            assert len(chosen) == 1


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_the_same_chance_makes_the_same_choice(name: str) -> None:
    def draws() -> list[list[str]]:
        memory, rng, candidates = Memory(), Random(7), agents(5)
        choose = STRATEGIES[name]
        return [[a.agent_id for a in choose(candidates, message(), view(), memory, rng)] for _ in range(30)]

    assert draws() == draws()


def test_direct_is_always_the_first() -> None:
    assert STRATEGIES["direct"](agents(3), message(), view(), Memory(), Random(1))[0].agent_id == "a0"


def test_broadcast_all_is_all() -> None:
    assert len(STRATEGIES["broadcast_all"](agents(3), message(), view(), Memory(), Random(1))) == 3


def test_round_robin_goes_round_for_each_pattern_by_itself() -> None:
    memory, candidates = Memory(), agents(3)

    def turn(pattern: str) -> str:
        return STRATEGIES["round_robin"](candidates, message(pattern), view(), memory, Random(1))[0].agent_id

    assert [turn("capability:x") for _ in range(5)] == ["a0", "a1", "a2", "a0", "a1"]
    assert turn("capability:y") == "a0"


def test_counters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "MAX_COUNTERS", 2)
    memory = Memory()
    assert [memory.next_number(name) for name in ("x", "y", "x", "z", "x")] == [0, 0, 1, 0, 0]


def shares(candidates: list[Agent], seen: View) -> dict[str, float]:
    rng, memory, count = Random(3), Memory(), 20_000
    drawn = Counter(
        STRATEGIES["weighted_random"](candidates, message(), seen, memory, rng)[0].agent_id for _ in range(count)
    )
    return {agent_id: round(number / count, 2) for agent_id, number in sorted(drawn.items())}


def test_weights_are_shares() -> None:
    index = CapabilityIndex()
    add(index, "a", "work", weight=3.0)
    add(index, "b", "work", weight=1.0)
    add(index, "c", "work", weight=0.0)
    candidates = list(index.agents.values())
    assert shares(candidates, view()) == pytest.approx({"a": 0.75, "b": 0.25}, abs=0.011)
    assert shares(candidates, view(a=0, b=1, c=1)) == pytest.approx({"b": 0.5, "c": 0.5}, abs=0.011)


def test_a_busy_one_has_a_fifth_of_its_share() -> None:
    index = CapabilityIndex()
    add(index, "a", "work", beat=Beat(state="busy"))
    add(index, "b", "work")
    assert shares(list(index.agents.values()), view()) == pytest.approx({"a": 1 / 6, "b": 5 / 6}, abs=0.011)


def test_where_nobody_has_weight_all_are_alike() -> None:
    assert shares(agents(2, weight=0.0), view()) == pytest.approx({"a0": 0.5, "a1": 0.5}, abs=0.011)


@pytest.mark.parametrize("weight", [1.7e308, math.inf, math.nan, 5e-324])
def test_weights_that_nobody_should_declare_bring_nobody_down(weight: float) -> None:
    rng, memory, candidates = Random(3), Memory(), agents(3, weight=weight)
    for seen in (view(), view(a0=weight, a1=weight, a2=weight)):
        drawn = {STRATEGIES["weighted_random"](candidates, message(), seen, memory, rng)[0].agent_id for _ in range(99)}
        assert len(drawn) > 1


def test_a_draw_at_the_very_end_is_the_last_one_with_any_weight() -> None:
    class Edge(Random):
        def random(self) -> float:
            return 1.0  # what rounding can make of a number just below

    index = CapabilityIndex()
    for agent_id, weight in (("a", 1.0), ("b", 1.0), ("c", 0.0)):
        add(index, agent_id, "work", weight=weight)
    chosen = STRATEGIES["weighted_random"](list(index.agents.values()), message(), view(), Memory(), Edge())
    assert chosen[0].agent_id == "b"


@pytest.mark.parametrize(
    ("scope", "wanted", "name"),
    [
        ("one", None, "weighted_random"),
        ("one", "direct", "direct"),
        ("one", "broadcast_all", "weighted_random"),
        ("one", "of_a_later_version", "weighted_random"),
        ("all", None, "broadcast_all"),
        ("all", "direct", "broadcast_all"),
        ("all", "broadcast_all", "broadcast_all"),
    ],
)
def test_the_policy_chooses_among_what_there_is(scope: Scope, wanted: str | None, name: str) -> None:
    assert strategy_for(scope, wanted) == name
