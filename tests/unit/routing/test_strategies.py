"""Every strategy keeps the contract: a part of those who fit, never nobody, one for scope one; and each its own promise."""

import math
from collections import Counter
from random import Random

import pytest

from reach.envelope import records
from reach.envelope.message import Scope
from reach.envelope.registration import Beat, RoutePolicy
from reach.routing.agents import Agent, History
from reach.routing.filters import View
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.strategies import DEFAULTS, STRATEGIES, Memory, score, strategy_for
from reach.routing.strategies import port as port_module
from tests.unit.routing.seen import NOW, add, message


def view(**weights: float) -> View:
    return View(now_ms=NOW, alive_since_ms=NOW - 15_000, policy=RoutePolicy(weights=weights))


def later(ms: int) -> View:
    return View(now_ms=NOW + ms, alive_since_ms=NOW - 15_000, policy=RoutePolicy())


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
        chosen = STRATEGIES[name](candidates, message(), view(), memory, rng).chosen
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
        return [[a.agent_id for a in choose(candidates, message(), view(), memory, rng).chosen] for _ in range(30)]

    assert draws() == draws()


def test_direct_is_always_the_first() -> None:
    assert STRATEGIES["direct"](agents(3), message(), view(), Memory(), Random(1)).chosen[0].agent_id == "a0"


def test_broadcast_all_is_all() -> None:
    assert len(STRATEGIES["broadcast_all"](agents(3), message(), view(), Memory(), Random(1)).chosen) == 3


def test_round_robin_goes_round_for_each_pattern_by_itself() -> None:
    memory, candidates = Memory(), agents(3)

    def turn(pattern: str) -> str:
        return STRATEGIES["round_robin"](candidates, message(pattern), view(), memory, Random(1)).chosen[0].agent_id

    assert [turn("capability:x") for _ in range(5)] == ["a0", "a1", "a2", "a0", "a1"]
    assert turn("capability:y") == "a0"


def test_counters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "MAX_COUNTERS", 2)
    memory = Memory()
    assert [memory.next_number(name) for name in ("x", "y", "x", "z", "x")] == [0, 0, 1, 0, 0]


def shares(candidates: list[Agent], seen: View, strategy: str = "weighted_random") -> dict[str, float]:
    rng, memory, count = Random(3), Memory(), 20_000
    drawn = Counter(
        STRATEGIES[strategy](candidates, message(), seen, memory, rng).chosen[0].agent_id for _ in range(count)
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
        drawn = {
            STRATEGIES["weighted_random"](candidates, message(), seen, memory, rng).chosen[0].agent_id
            for _ in range(99)
        }
        assert len(drawn) > 1


def test_a_draw_at_the_very_end_is_the_last_one_with_any_weight() -> None:
    class Edge(Random):
        def random(self) -> float:
            return 1.0  # what rounding can make of a number just below

    index = CapabilityIndex()
    for agent_id, weight in (("a", 1.0), ("b", 1.0), ("c", 0.0)):
        add(index, agent_id, "work", weight=weight)
    chosen = STRATEGIES["weighted_random"](list(index.agents.values()), message(), view(), Memory(), Edge()).chosen
    assert chosen[0].agent_id == "b"


@pytest.mark.parametrize(
    ("scope", "wanted", "name"),
    [
        ("one", None, "score"),
        ("one", "direct", "direct"),
        ("one", "broadcast_all", "score"),
        ("one", "of_a_later_version", "score"),
        ("all", None, "broadcast_all"),
        ("all", "direct", "broadcast_all"),
        ("all", "broadcast_all", "broadcast_all"),
    ],
)
def test_the_policy_chooses_among_what_there_is(scope: Scope, wanted: str | None, name: str) -> None:
    assert strategy_for(scope, wanted) == name


# ---------------------------------------------------------------- score
def beaten(**beats: Beat) -> list[Agent]:
    index = CapabilityIndex()
    for agent_id, beat in beats.items():
        add(index, agent_id, "work", beat=beat, concurrency=100)
    return list(index.agents.values())


def scored(candidates: list[Agent], memory: Memory | None = None, seen: View | None = None) -> list[float]:
    return score.scores(candidates, seen or view(), memory or Memory()).weights


def test_the_worked_example() -> None:
    candidates = beaten(
        a=Beat(load=30, success_rate=0.99, avg_response_ms=800), b=Beat(load=10, success_rate=0.95, avg_response_ms=800)
    )
    first, second = scored(candidates)
    assert (first / (first + second), second / (first + second)) == pytest.approx((0.448, 0.552), abs=0.0005)


@pytest.mark.parametrize("concurrency", [1, 4, 100])
def test_load_that_no_message_of_ours_makes_stays_until_the_next_beat(concurrency: int) -> None:
    """A model server that others use, too, says load 30 and runs nothing of ours: it is no emptier two seconds later."""
    index = CapabilityIndex()
    add(index, "a", "work", beat=Beat(load=30, success_rate=0.99, avg_response_ms=100), concurrency=concurrency)
    add(index, "b", "work", beat=Beat(load=10, success_rate=0.95, avg_response_ms=100), concurrency=concurrency)
    memory = Memory()
    for after_ms in (0, 2_000, 4_900):
        first, second = scored(list(index.agents.values()), memory, later(after_ms))
        assert (first / (first + second), second / (first + second)) == pytest.approx((0.448, 0.552), abs=0.0005)
        assert first == pytest.approx(0.7 * 0.99 / 1.1)


def test_what_runs_ends_and_what_others_take_does_not() -> None:
    index = CapabilityIndex()
    add(index, "a", "work", beat=Beat(load=75, inflight=2, success_rate=1.0, avg_response_ms=0), concurrency=4)
    agent = index.agents["a"]
    assert (agent.history(NOW - 15_000).inflight, agent.history(NOW - 15_000).beside) == (3, 1)
    assert scored([agent]) == pytest.approx([0.25])
    assert scored([agent], seen=later(3_000)) == pytest.approx([0.75])


def test_who_is_full_of_the_work_of_others_is_out_of_the_draw_while_anybody_could_begin() -> None:
    index = CapabilityIndex()
    add(index, "a", "work", beat=Beat(load=100, success_rate=1.0, avg_response_ms=100), concurrency=2)
    add(index, "b", "work", beat=Beat(load=40, success_rate=1.0, avg_response_ms=100), concurrency=2)
    assert scored(list(index.agents.values()), seen=later(4_000))[0] == 0


def test_the_draw_is_in_proportion_to_the_scores() -> None:
    class Forgetful(Memory):
        def note_sent(self, agent_id: str, now_ms: int) -> None: ...

    candidates = beaten(
        a=Beat(load=30, success_rate=0.99, avg_response_ms=800), b=Beat(load=10, success_rate=0.95, avg_response_ms=800)
    )
    rng, memory = Random(3), Forgetful()
    drawn = Counter(score.select(candidates, message(), view(), memory, rng).chosen[0].agent_id for _ in range(20_000))
    assert drawn["a"] / 20_000 == pytest.approx(0.448, abs=0.011)


def test_slow_and_failing_ones_score_less() -> None:
    good = Beat(success_rate=1.0, avg_response_ms=1_000)
    slow, failing = Beat(success_rate=1.0, avg_response_ms=2_000), Beat(success_rate=0.5, avg_response_ms=1_000)
    assert scored(beaten(a=good, b=slow, c=failing)) == pytest.approx([0.5, 1 / 3, 0.25])


def test_a_newcomer_is_taken_for_the_median_of_its_peers() -> None:
    peers = {
        f"a{at}": Beat(success_rate=rate, avg_response_ms=ms)
        for at, (rate, ms) in enumerate([(0.5, 1_000), (0.8, 3_000), (1.0, 9_000)])
    }
    *_, newcomer = scored(beaten(**peers, new=Beat()))
    assert newcomer == pytest.approx(0.8 / 4)
    assert scored(beaten(a=Beat(), b=Beat())) == [0.5, 0.5]


def test_nobody_is_ever_quite_out_of_the_draw() -> None:
    hopeless = scored(beaten(a=Beat(success_rate=0.0, avg_response_ms=1e300), b=Beat(success_rate=1.0)))
    assert hopeless[0] == score.FLOOR


def test_weights_multiply_and_a_busy_one_has_a_fifth() -> None:
    candidates = beaten(a=Beat(), b=Beat(state="busy"), c=Beat())
    assert scored(candidates, seen=view(c=3.0)) == pytest.approx([0.5, 0.1, 1.5])


def test_the_idlest_is_not_chosen_by_a_herd() -> None:
    index = CapabilityIndex()
    for agent_id, load in (("idle", 0.0), *((f"a{at}", 50.0) for at in range(9))):
        beat = Beat(load=load, inflight=int(load / 25), success_rate=1.0, avg_response_ms=60_000)
        add(index, agent_id, "work", beat=beat, concurrency=4)
    candidates, memory, rng = list(index.agents.values()), Memory(), Random(5)
    drawn = Counter(score.select(candidates, message(), view(), memory, rng).chosen[0].agent_id for _ in range(22))
    assert drawn["idle"] <= 4, "what was sent since the beat takes its slots"
    assert max(drawn.values()) <= 4


def test_nobody_waits_behind_others_while_somebody_could_begin() -> None:
    full = {f"a{at}": Beat(state="busy", load=100.0, avg_response_ms=60_000) for at in range(3)}
    candidates = beaten(**full, free=Beat(load=95.0, avg_response_ms=60_000))
    assert [value > 0 for value in scored(candidates)] == [False, False, False, True]
    assert all(value > 0 for value in scored(candidates[:3]))


def test_of_the_full_ones_the_longest_queue_has_the_least() -> None:
    index = CapabilityIndex()
    for agent_id in ("a", "b"):
        add(index, agent_id, "work", beat=Beat(load=100.0, inflight=4, avg_response_ms=60_000), concurrency=4)
    candidates, memory = list(index.agents.values()), Memory()
    scored(candidates, memory)
    for _ in range(4):
        memory.note_sent("b", NOW)
    short, long = scored(candidates, memory)
    assert short == pytest.approx(5 * long)
    assert long > 0


def test_levels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "MAX_LEVELS", 2)
    memory, candidates = Memory(), beaten(a=Beat(), b=Beat(), c=Beat())
    for _ in range(3):
        assert len(scored(candidates, memory)) == 3
    assert len(memory._levels) <= 2


def test_what_it_has_is_counted_over_all_its_live_instances() -> None:
    index = CapabilityIndex()
    add(index, "a", "work", beat=Beat(load=100, success_rate=0.5, avg_response_ms=1_000), concurrency=4)
    for instance, at_ms, beat in (
        ("a.2", NOW - 5, Beat(load=0, success_rate=1.0, avg_response_ms=3_000)),
        ("a.3", NOW, Beat(state="draining", load=100, success_rate=0.0)),
        ("a.4", NOW - 60_000, Beat(load=100, success_rate=0.0)),
    ):
        assert index.beat("a", instance, at_ms, records.encode_beat(beat))
    assert index.agents["a"].history(NOW - 15_000) == History(NOW, NOW - 5, 8, 4.0, False, 0.75, 2_000.0, 4.0)


def test_what_it_has_is_told_anew_when_an_instance_beats_falls_silent_or_leaves() -> None:
    index = CapabilityIndex()
    add(index, "a", "work", beat=Beat(load=100), concurrency=4)
    agent = index.agents["a"]
    assert agent.history(NOW - 15_000).inflight == 4
    assert index.beat("a", "a.1", NOW + 5_000, records.encode_beat(Beat(load=25)))
    assert agent.history(NOW - 15_000).inflight == 1
    assert index.beat("a", "a.2", NOW + 9_000, records.encode_beat(Beat(load=50)))
    assert agent.history(NOW - 15_000).inflight == 3
    assert agent.history(NOW + 5_001).inflight == 2, "a.1 is suspect by then"
    index.apply("gone", "a/a.2", b"")
    assert agent.history(NOW - 15_000).inflight == 1
    index.forget_beats()
    assert agent.history(NOW - 15_000) == History(0, 1 << 62, 1, 0.0, True, None, None)


# ---------------------------------------------------------------- sticky
def keys(count: int = 3_000) -> list[Message]:
    return [message(conversation=f"c{at}") for at in range(count)]


def stuck(candidates: list[Agent], key: Message) -> str:
    return STRATEGIES["sticky"](candidates, key, view(), Memory(), Random(1)).chosen[0].agent_id


def test_a_conversation_stays_and_few_move_when_somebody_leaves_or_comes() -> None:
    candidates = agents(10)
    before = {key.conversation: stuck(candidates, key) for key in keys()}
    assert max(Counter(before.values()).values()) < 3_000 / 10 * 1.25
    left = [agent for agent in candidates if agent.agent_id != "a3"]
    moved = [key for key in keys() if stuck(left, key) != before[key.conversation]]
    assert {before[key.conversation] for key in moved} == {"a3"}, "only what it had moves"
    back = [stuck(candidates, key) == before[key.conversation] for key in keys()]
    assert all(back)


def test_the_order_key_counts_before_the_conversation() -> None:
    candidates = agents(7)
    chosen = {stuck(candidates, message(order_key="k", conversation=f"c{at}")) for at in range(20)}
    assert len(chosen) == 1


def test_twice_the_weight_wins_twice_as_many_keys() -> None:
    index = CapabilityIndex()
    add(index, "a", "work", weight=2.0)
    add(index, "b", "work", weight=1.0)
    add(index, "c", "work", weight=0.0)
    won = Counter(stuck(list(index.agents.values()), key) for key in keys())
    assert won["a"] / 3_000 == pytest.approx(2 / 3, abs=0.03)
    assert won["c"] == 0


def test_turns_are_bounded_and_forget_who_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "MAX_COUNTERS", 2)
    memory = Memory()
    assert [memory.next_of(name, {"a": 1, "b": 1}) for name in ("x", "y", "x", "z", "x")] == ["a", "a", "b", "a", "a"]
    assert [memory.next_of("x", {"b": 1}) for _ in range(2)] == ["b", "b"]
