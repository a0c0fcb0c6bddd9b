"""Who is left aside: nobody waits for a slow one while a quick one could begin, and everybody is asked now and then."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.envelope.registration import Beat
from reach.routing import pools
from reach.routing.decide import Chooser, decide
from reach.routing.index import CapabilityIndex
from reach.routing.strategies import Memory
from reach.routing.strategies.outliers import FEW, MORE_MS, PART, SHARE, TIMES, Weighed, shares, shares_of_many
from tests.unit.routing.seen import NOW, add, message


def one(ends_ms: float, score: float = 0.5, *, waits: bool = False, success: float = 1.0) -> Weighed:
    return Weighed(score, waits, ends_ms, success)


def test_those_who_are_comparable_keep_their_scores() -> None:
    assert shares([one(1_000, 0.4), one(2_100, 0.2), one(1_500, 0.3)]) == ([0.4, 0.2, 0.3], {})


def test_who_takes_much_longer_has_a_hundredth_of_all() -> None:
    weights, aside = shares([one(1_000, 0.5), one(1_000, 0.3), one(3_000, 0.2), one(9_000, 0.1)])
    assert weights[:2] == [0.5, 0.3]
    assert weights[2:] == pytest.approx([SHARE * 0.8 * 2 / 3, SHARE * 0.8 / 3])
    assert aside == {
        2: "it would take 3.0 s, the best 1.0 s: left aside",
        3: "it would take 9.0 s, the best 1.0 s: left aside",
    }


def test_quick_ones_are_comparable_however_many_times_quicker_one_is() -> None:
    assert shares([one(2, 0.5), one(2 * TIMES + MORE_MS, 0.4)]) == ([0.5, 0.4], {})


def test_a_slow_one_with_a_free_slot_takes_part_when_the_others_would_take_as_long() -> None:
    weights, aside = shares([one(2_000, 0.01, waits=True), one(3_000, 0.2)])
    assert (weights, aside) == ([0.0, 0.2], {}), "nobody waits behind others while somebody could begin"


def test_a_slow_one_takes_no_part_while_the_others_have_a_slot_though_it_has_one() -> None:
    weights, aside = shares([one(1_000, 0.4), one(1_250, 0.01, waits=True), one(3_000, 0.2)])
    assert weights == [0.4, 0.0, pytest.approx(SHARE * 0.4)]
    assert list(aside) == [2]


def test_with_a_long_queue_it_is_not_even_asked_now_and_then() -> None:
    assert shares([one(1_000, 0.4), one(5_000, 0.01, waits=True)]).weights == [0.4, 0.0]


def test_who_fails_at_once_leaves_nobody_aside() -> None:
    """It is the quickest, and the worst."""
    assert shares([one(1, 0.3, success=0.3), one(1_000, 0.5), one(1_500, 0.4)]) == ([0.3, 0.5, 0.4], {})


def test_where_the_best_ones_have_no_weight_the_others_are_asked() -> None:
    assert shares([one(1_000, 0.0), one(9_000, 0.2)]) == ([0.0, 0.2], {})


def test_among_many_each_is_measured_against_the_usual_time() -> None:
    weights, aside = shares_of_many([one(1_000, 0.5), one(1_250, 0.01, waits=True), one(3_000, 0.2)], 1_000)
    assert weights == [0.5, 0.0, pytest.approx(PART * 0.2)]
    assert aside == {2: "it would take 3.0 s, usual are 1.0 s: left aside"}
    assert shares_of_many([one(1_250, 0.01, waits=True)], 1_000) == ([0.01], {})


def test_many_are_those_of_whom_one_is_drawn_without_weighing_all() -> None:
    assert pools.SMALL == FEW


WEIGHED = st.builds(Weighed, st.floats(0, 1e6), st.booleans(), st.floats(0, 1e12, allow_nan=False), st.floats(0, 1))


@given(st.lists(WEIGHED, min_size=1, max_size=30))
def test_the_draw_always_has_somebody_whom_the_scores_have(weighed: list[Weighed]) -> None:
    weights, aside = shares(weighed)
    assert len(weights) == len(weighed)
    assert all(weight >= 0 for weight in weights)
    free = [each for each in weighed if not each.waits]
    if any(each.score > 0 for each in free) and not aside:
        assert any(weight > 0 for weight in weights)
    assert len(aside) < len(weighed)
    assert sum(weights[at] for at in aside) <= 1.001 * SHARE * sum(weights) + 1e-300
    for at, each in enumerate(weighed):
        if at not in aside and weights[at]:
            assert weights[at] == each.score


def test_the_decision_tells_who_was_left_aside_and_why() -> None:
    index = CapabilityIndex()
    for agent_id, ms in (("quick", 1_000), ("slow", 4_000)):
        add(index, agent_id, "work", beat=Beat(success_rate=1.0, avg_response_ms=ms), concurrency=4)
    why = decide(message(), None, Chooser(index=index, rng=Random(1), memory=Memory()), NOW).why
    told = {seen.agent: (seen.filter, seen.reason) for seen in why.candidates}
    assert told == {"quick": ("", ""), "slow": ("", "it would take 4.0 s, the best 1.0 s: left aside")}


def test_who_is_well_again_is_noticed() -> None:
    """It is asked now and then, answers quickly, and its beats say so: soon it has its share again."""
    index, rng = CapabilityIndex(), Random(4)
    chooser = Chooser(index=index, rng=rng, memory=Memory())
    for agent_id in ("a", "b", "c"):
        add(index, agent_id, "work", beat=Beat(success_rate=1.0, avg_response_ms=1_000), concurrency=50)
    add(index, "d", "work", beat=Beat(success_rate=1.0, avg_response_ms=9_000), concurrency=50)
    asked, mean_ms, now_ms = 0, 9_000.0, NOW
    for number in range(8_000):
        now_ms = NOW + number * 100
        if number % 50 == 0:
            for agent_id, ms in (("a", 1_000.0), ("b", 1_000.0), ("c", 1_000.0), ("d", mean_ms)):
                add(
                    index,
                    agent_id,
                    "work",
                    beat=Beat(success_rate=1.0, avg_response_ms=ms),
                    concurrency=50,
                    at_ms=now_ms,
                )
        asks = message(first_at_ms=now_ms + 30_000, total_at_ms=now_ms + 30_000)
        if decide(asks, None, chooser, now_ms).why.chosen == ("d",):
            asked += 1
            mean_ms += 0.2 * (1_000 - mean_ms)
    assert mean_ms < 2_000
    assert asked > 500, "a quarter of what came after it was noticed"
