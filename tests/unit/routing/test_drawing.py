"""Where many answer, one is drawn and then asked: it is always one that fits, with the share that it has where all are asked."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reach.envelope.circuit import OpenCircuit
from reach.envelope.ledger import LegState
from reach.envelope.records import encode_beat, encode_policy
from reach.envelope.registration import Accept, Beat, RoutePolicy
from reach.routing import drawing, pools
from reach.routing.agents import WORKING, Agent
from reach.routing.decide import Chooser, decide
from reach.routing.drawing import Drawn, Hat
from reach.routing.filters import View, sift
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.pools import Pool
from reach.routing.steps import Deliver, Move, Stay
from reach.routing.strategies import STRATEGIES, WEIGHINGS, Memory
from tests.unit.routing.seen import NOW, add, chooser, leg, message, step

BEATS = st.builds(
    Beat,
    state=st.sampled_from(["ready", "ready", "ready", "busy", "draining", "not_ready"]),
    load=st.sampled_from([0.0, 50.0, 100.0]),
    success_rate=st.sampled_from([None, 0.0, 0.5, 1.0]),
    avg_response_ms=st.sampled_from([None, 0.0, 1_000.0, 60_000.0]),
    context_left=st.sampled_from([None, 10, 1_000]),
    partitions=st.sampled_from([None, 1, 2]),
)
DECLARED = st.fixed_dictionaries(
    {
        "weight": st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        "zone": st.sampled_from([None, "a", "b"]),
        "concurrency": st.sampled_from([1, 8]),
        "accepts": st.sampled_from([(Accept(type="request"),), (Accept(type="request", schemas=("s.v1",)),)]),
    }
)
AGENTS = st.lists(st.tuples(DECLARED, BEATS, st.sampled_from([0, 1_000, 20_000])), min_size=21, max_size=40)
NAMES = st.frozensets(st.sampled_from([f"a{at:02}" for at in range(40)]), max_size=6)


def fleet(told: list[tuple[dict[str, object], Beat, int]]) -> CapabilityIndex:
    index = CapabilityIndex()
    for at, (declared, beat, ago_ms) in enumerate(told):
        add(index, f"a{at:02}", "work", beat=beat, at_ms=NOW - ago_ms, **declared)
    return index


def alike(count: int, **beat: object) -> CapabilityIndex:
    index = CapabilityIndex()
    for at in range(count):
        add(index, f"a{at:03}", "work", beat=Beat(**beat))  # type: ignore[arg-type]
    return index


def view_of(index: CapabilityIndex, **fields: object) -> View:
    values: dict[str, object] = {"now_ms": NOW, "alive_since_ms": NOW - 15_000, **fields}
    return View(policy=index.policy("capability:work"), circuits=index.circuits, **values)  # type: ignore[arg-type]


def drawn(
    index: CapabilityIndex,
    asked: Message,
    view: View,
    seed: int = 1,
    strategy: str = "score",
    barred: frozenset[str] = frozenset(),
) -> Drawn | None:
    pool = index.pool(asked.pattern, strategy, WEIGHINGS[strategy])
    assert pool is not None
    return Hat(pool, asked, view, barred, lambda _: True).draw(Memory(), Random(seed))


@settings(max_examples=60, deadline=None)
@given(
    told=AGENTS,
    strategy=st.sampled_from(sorted(WEIGHINGS)),
    policy=st.builds(
        RoutePolicy,
        zone=st.sampled_from([None, "hard", "preferred"]),
        weights=st.dictionaries(st.sampled_from(["a00", "a01"]), st.sampled_from([0.0, 7.0])),
    ),
    asked=st.fixed_dictionaries(
        {
            "hops": NAMES,
            "schema": st.sampled_from([None, "s.v1", "s.v2"]),
            "zone": st.sampled_from([None, "a", "c"]),
            "partition": st.sampled_from([0, 1]),
            "context_tokens": st.sampled_from([0, 100]),
        }
    ),
    known=st.fixed_dictionaries(
        {
            "tried": NAMES,
            "unfit": NAMES.map(lambda names: dict.fromkeys(names, "full")),
            "limited": NAMES.map(lambda names: dict.fromkeys(names, 500)),
        }
    ),
    shut=NAMES,
    barred=NAMES,
)
def test_who_is_drawn_is_among_those_that_fit_where_all_are_asked(
    told: list[tuple[dict[str, object], Beat, int]],
    strategy: str,
    policy: RoutePolicy,
    asked: dict[str, object],
    known: dict[str, object],
    shut: frozenset[str],
    barred: frozenset[str],
) -> None:
    index = fleet(told)
    index.apply("route", "capability:work", encode_policy(policy))
    for agent_id in shut & index.agents.keys():
        index.circuits[agent_id] = {0: OpenCircuit(NOW + 1_000, "fails")}
    work, view = message(**asked), view_of(index, **known)
    sifted = sift(index.match(work.pattern), work, view)
    fits = [agent for agent in sifted.fits if agent.agent_id not in barred]
    weighed = STRATEGIES[strategy](fits, work, view, Memory(), Random(1)).scores if len(fits) > 1 else [1.0] * len(fits)
    scores = {agent.agent_id: score for agent, score in zip(fits, weighed, strict=True)}
    refused = {seen.agent: seen for seen in sifted.refused}
    for seed in range(10):
        found = drawn(index, work, view, seed, strategy, barred)
        if found is None:
            continue  # then all are asked
        assert found.agent.agent_id in scores
        # Newcomers are taken for the median of their peers, and here those that do not fit are peers as well.
        assert scores[found.agent.agent_id] > 0 or any(is_newcomer(agent) for agent in fits)
        assert found.why.chosen == (found.agent.agent_id,)
        assert found.why.counts["matched"] == len(told)
        for seen in found.why.candidates[1:]:
            # Of who does not suit, the filters may have more to say where all are asked: somebody who suits better was found there too.
            assert seen == refused[seen.agent]


@pytest.mark.parametrize("strategy", sorted(WEIGHINGS))
def test_the_shares_are_those_of_asking_all(strategy: str) -> None:
    index, chance = CapabilityIndex(), Random(7)
    for at in range(40):
        told = Beat(
            state="busy" if at % 7 == 0 else "ready",
            load=chance.choice([0.0, 25.0, 50.0, 75.0, 100.0]),
            success_rate=None if at % 5 == 0 else chance.uniform(0.5, 1.0),
            avg_response_ms=None if at % 5 == 0 else chance.uniform(10, 20_000),
        )
        add(index, f"a{at:02}", "work", beat=told, weight=chance.choice([0.2, 1.0, 2.5]))
    view, agents = view_of(index), index.match(message().pattern)
    scores = STRATEGIES[strategy](agents, message(), view, Memory(), Random(1)).scores
    draws = 20_000
    pool = index.pool(message().pattern, strategy, WEIGHINGS[strategy])
    assert pool is not None
    rng, memory = Random(3), Memory()
    memory.note_sent = lambda agent_id, now_ms: None  # type: ignore[method-assign]  # each draw is from the same levels
    hat = Hat(pool, message(), view, (), lambda _: True)
    found = Counter(one.agent.agent_id for one in (hat.draw(memory, rng) for _ in range(draws)) if one is not None)
    assert found.total() == draws
    for agent, score in zip(agents, scores, strict=True):
        share = score / sum(scores)
        assert abs(found[agent.agent_id] / draws - share) <= 4 * (share * (1 - share) / draws) ** 0.5


OPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "declare", "gone", "beat", "newcomer", "drain", "leave", "silent", "forget"]),
        st.integers(0, 30),
        st.sampled_from([0.1, 0.5, 1.0]),
    ),
    max_size=40,
)


@settings(max_examples=50, deadline=None)
@given(ops=OPS)
def test_a_pool_that_has_followed_is_like_one_that_is_new(ops: list[tuple[str, int, float]]) -> None:
    index = alike(25)
    patterns = [
        message(text).pattern for text in ("capability:work", "group:g", "capability:wo.*+work", "capability:wo.*")
    ]
    for at in range(25):
        add(index, f"b{at:02}", "work", "wo.rk", groups=("g",), beat=Beat(success_rate=0.5))
    for op, at, number in ops:
        for pattern in patterns:
            index.pool(pattern, "score", WEIGHINGS["score"])
        name = f"b{at:02}"
        if op == "join":
            add(index, name, "work", "wo.rk", groups=("g",), weight=number)
        elif op == "declare":
            add(index, name, *(("work",) if number < 1 else ("wo.rk",)))
        elif op == "gone":
            index.apply("gone", name, b"")
        elif op == "leave":
            index.apply("gone", f"{name}/{name}.1", b"")
        elif op == "silent":
            index.forget_silent(NOW + 60_000 + at)
        elif op == "forget":
            index.forget_beats()
        else:
            told = {
                "beat": Beat(success_rate=number, avg_response_ms=number * 5_000),
                "newcomer": Beat(),
                "drain": Beat(state="draining"),
            }[op]
            index.beat(name, f"{name}.{1 + at % 2}", NOW + at, encode_beat(told))
    for pattern in patterns:
        agents = list(index.match(pattern))
        pool = index.pool(pattern, "score", WEIGHINGS["score"])
        assert (pool is None) == (len(agents) <= pools.SMALL)
        if pool is not None:
            assert_alike(pool, Pool(agents, WEIGHINGS["score"], {}))
            assert pool.agents == {agent.agent_id: agent for agent in agents}


def assert_alike(one: Pool, other: Pool) -> None:
    assert {name: bucket for name, (bucket, _) in one._places.items()} == {
        name: bucket for name, (bucket, _) in other._places.items()
    }
    for name, (bucket, at) in one._places.items():
        assert one._buckets[bucket][at] == name


@settings(max_examples=50, deadline=None)
@given(told=AGENTS, strategy=st.sampled_from(sorted(WEIGHINGS)), since_ms=st.sampled_from([0, NOW - 15_000]))
def test_nobody_weighs_more_than_the_most_that_it_can(
    told: list[tuple[dict[str, object], Beat, int]], strategy: str, since_ms: int
) -> None:
    index = fleet(told)
    for at, (_, beat, ago_ms) in enumerate(reversed(told)):  # a second instance of each, in another state
        index.beat(f"a{at:02}", "second", NOW - ago_ms, encode_beat(beat))
    pool = index.pool(message().pattern, strategy, WEIGHINGS[strategy])
    assert pool is not None
    usual = pool.usual(NOW, Random(1))
    view = view_of(index, alive_since_ms=since_ms)
    for seed in range(30):
        one = pool.draw(Random(seed))
        if one is not None and one[0].state(since_ms) in WORKING:  # else it is refused
            assert WEIGHINGS[strategy].now(one[0], view, Memory(), usual).score <= one[1]


def test_where_nobody_can_begin_one_of_those_that_were_drawn_is_chosen() -> None:
    index = alike(drawing.FEW + 1, load=100.0, inflight=8, avg_response_ms=60_000.0)
    asked, view = message(), view_of(index, tried=frozenset(["a000"]))
    found = [drawn(index, asked, view, seed) for seed in range(20)]
    assert all(one is not None and one.agent.agent_id != "a000" for one in found)
    assert len({one.agent.agent_id for one in found if one is not None}) > 10


def test_where_few_answer_nobody_waits_while_somebody_can_begin() -> None:
    index = alike(drawing.FEW - 1, load=100.0, inflight=8, avg_response_ms=60_000.0)
    add(index, "free", "work", beat=Beat(avg_response_ms=60_000.0), weight=0.01)
    by = chooser(index)
    assert step(decide(message(), None, by, NOW)) == Deliver("free")


def test_who_weighs_next_to_nothing_now_is_found_all_the_same() -> None:
    """Everybody has a slot left, but of so many that it weighs a fiftieth of what it could."""
    index = CapabilityIndex()
    for at in range(30):
        add(index, f"a{at:02}", "work", beat=Beat(load=99.9, avg_response_ms=1e-3), concurrency=100_000)
    found = [drawn(index, message(), view_of(index), seed) for seed in range(40)]
    assert all(found)
    assert len({one.agent.agent_id for one in found if one is not None}) > 5


def test_where_nobody_is_drawn_all_are_asked() -> None:
    index = alike(30, state="draining")
    assert drawn(index, message(), view_of(index)) is None
    choice = decide(message(), None, chooser(index), NOW)
    assert choice.why.counts == {"matched": 30, "fit": 0, "ready": 30}
    none_accepts = alike(30)
    assert drawn(none_accepts, message(type="other"), view_of(none_accepts)) is None
    weightless = CapabilityIndex()
    for at in range(30):
        add(weightless, f"a{at:02}", "work", weight=0.0)
    assert isinstance(step(decide(message(), None, chooser(weightless), NOW)), Deliver)


def test_who_explains_asks_all() -> None:
    index = alike(30)
    by = Chooser(index=index, rng=Random(1), memory=Memory(), whole=True)
    assert decide(message(), None, by, NOW).why.counts == {"matched": 30, "fit": 30}
    assert decide(message(), None, chooser(index), NOW).why.counts == {"matched": 30, "asked": 1, "fit": 1}


def test_what_nobody_picks_up_moves_to_one_of_many_that_can_begin() -> None:
    index = alike(30, state="busy", inflight=8, load=100.0)
    for agent_id in ("a004", "a009", "a017"):
        index.beat(agent_id, f"{agent_id}.1", NOW, encode_beat(Beat()))
    lies = leg(LegState.QUEUED, agent="a009", hand="1-1", left=("a017",))
    choice = decide(message(), lies, chooser(index), NOW)
    assert step(choice) == Move("a004")
    assert choice.why.counts["matched"] == 30
    index.beat("a004", "a004.1", NOW + 1, encode_beat(Beat(state="busy", inflight=8, load=100.0)))
    assert step(decide(message(), lies, chooser(index), NOW + 1)) == Stay()


def test_answers_go_to_who_has_asked_among_however_many() -> None:
    index = alike(30)
    back = leg(LegState.RETURNED, answers=(), tried=("a007",))
    assert step(decide(message(), back, chooser(index), NOW)) != Deliver("a007")


def test_an_intent_draws_from_those_that_offer_what_it_means() -> None:
    index = CapabilityIndex()
    for at in range(30):
        add(index, f"a{at:02}", "refund.create")
    asked = message("intent:create a refund")
    weighing = WEIGHINGS["score"]
    assert index.pool(asked.pattern, "score", weighing) is index.pool(
        message("capability:refund.create").pattern, "score", weighing
    )
    assert isinstance(step(decide(asked, None, chooser(index), NOW)), Deliver)
    assert index.pool(message("intent:sing a song").pattern, "score", weighing) is None
    index.apply("route", asked.pattern.text, encode_policy(RoutePolicy(weights={"a03": 5.0})))
    assert index.pool(asked.pattern, "score", weighing) is None, "its weights are its own"


def test_the_weights_of_a_policy_are_followed_at_once() -> None:
    index = alike(30)
    asked = message()
    before = index.pool(asked.pattern, "score", WEIGHINGS["score"])
    index.apply("route", "capability:work", encode_policy(RoutePolicy(weights={"a003": 0.0})))
    after = index.pool(asked.pattern, "score", WEIGHINGS["score"])
    assert before is not after
    assert after is not None
    assert "a003" not in after._places


def test_a_pool_goes_when_few_are_left_and_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    index = alike(22)
    for at in range(22):
        add(index, f"b{at:02}", "other")
    work, other = message().pattern, message("capability:other").pattern
    first = index.pool(work, "score", WEIGHINGS["score"])
    assert first is not None
    assert index.pool(work, "weighted_random", WEIGHINGS["weighted_random"]) is not None
    monkeypatch.setattr(pools, "MAX_PLACES", 50)
    assert index.pool(other, "score", WEIGHINGS["score"]) is not None
    again = index.pool(work, "score", WEIGHINGS["score"])
    assert again is not first, "it had to go for the other one"
    index.apply("gone", "a000", b"")
    index.apply("gone", "a001", b"")
    assert index.pool(work, "score", WEIGHINGS["score"]) is None
    assert index._pools._asked.touched_by(Agent(index.agents["a002"].declared)) == []


def test_an_answer_is_remembered_until_somebody_comes_who_is_part_of_it() -> None:
    index = alike(3)
    work = message().pattern
    before = index.match(work)
    add(index, "x", "else")
    assert index.match(work) is before
    add(index, "y", "work")
    assert [agent.agent_id for agent in index.match(work)] == ["a000", "a001", "a002", "y"]


def is_newcomer(agent: Agent) -> bool:
    history = agent.history(0)
    return history.success_rate is None or history.avg_response_ms is None
