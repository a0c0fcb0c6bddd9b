"""How many instances a capability wants, and that it stays so while nothing but chance changes."""

from random import Random

import pytest

from reach.routing.wanted import DOWN_AFTER_MS, Demand, Wanted, needed, read_result, steady


@pytest.mark.parametrize(
    ("demand", "instances"),
    [
        (Demand(), 0),
        (Demand(arrivals_per_s=0.01), 1),
        (Demand(inflight=1.0), 1),
        (Demand(waiting=1.0), 1),  # nobody is there: the first one
        (Demand(arrivals_per_s=7.0, mean_s=2.0, instances=1, slots=1), 20),
        (Demand(arrivals_per_s=7.0, mean_s=2.0, instances=5, slots=20), 5),
        (Demand(arrivals_per_s=7.0, mean_s=2.0, instances=5, slots=20, backlog=420), 10),
        (Demand(arrivals_per_s=0.7, instances=0), 1),
        (Demand(backlog=600, mean_s=7.0, instances=2, slots=4), 50),
    ],
)
def test_so_many_are_needed(demand: Demand, instances: int) -> None:
    assert needed(demand) == instances


def test_more_are_wanted_at_once_and_fewer_after_a_while() -> None:
    held = steady(None, 4, 0)
    assert held == Wanted(4)
    assert steady(held, 9, 1_000).instances == 9
    held = steady(held, 1, 1_000)
    assert held.instances == 4
    held = steady(held, 2, 60_000)
    assert held.instances == 4
    held = steady(held, 1, 1_000 + DOWN_AFTER_MS)
    assert held == Wanted(2)  # the most that was needed meanwhile


def test_a_rise_in_between_begins_the_wait_anew() -> None:
    held = steady(steady(Wanted(4), 1, 1_000), 4, 200_000)
    assert held == Wanted(4)
    assert steady(held, 1, 1_000 + DOWN_AFTER_MS).instances == 4


def test_it_goes_down_to_none() -> None:
    held = steady(Wanted(1), 0, 1_000)
    assert steady(held, 0, 1_000 + DOWN_AFTER_MS) == Wanted(0)


def test_a_clock_that_went_back_begins_the_wait_anew() -> None:
    held = steady(Wanted(4), 1, 900_000)
    assert steady(held, 1, 1_000) == Wanted(4, 1_000, 1)


def test_a_little_more_or_less_changes_nothing() -> None:
    assert steady(Wanted(100), 101, 1_000) == steady(Wanted(100), 99, 1_000) == Wanted(100)


def test_chance_alone_does_not_make_it_flap() -> None:
    """Poisson arrivals at one rate, counted over 30 s, told every 5 s, for an hour: it rises a few times at first, and stays."""
    rng, held, changes, came = Random(1), None, 0, [0] * 6
    for round_no in range(720):
        came = [*came[1:], sum(rng.random() < 0.01 for _ in range(5_000))]
        demand = Demand(arrivals_per_s=sum(came) / 30, mean_s=2.0, instances=10, slots=40)
        now = steady(held, needed(demand), round_no * 5_000)
        changes += held is not None and now.instances != held.instances
        held = now
    assert held is not None
    assert changes <= 12  # of 720 rounds; the first six fill the window
    assert 7 <= held.instances <= 9


def test_what_nobody_can_read_is_nothing() -> None:
    assert read_result(b"") == read_result(b"\xff") == read_result(b'{"at_ms":"x"}')
