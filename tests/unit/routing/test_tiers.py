"""tiered: shares are exact, over several routers, through changes, and where a tier has nobody."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from reach.envelope.records import encode_policy
from reach.envelope.registration import RoutePolicy
from reach.routing.agents import Agent
from reach.routing.decide import Chooser, decide
from reach.routing.filters import View
from reach.routing.index import CapabilityIndex
from reach.routing.strategies import STRATEGIES, Memory
from tests.unit.routing.seen import NOW, add, message

COUNT = 1_000


class Town:
    """Two agents in each tier, and routers with a memory of their own."""

    def __init__(self, *tiers: str, routers: int = 1) -> None:
        self.index = CapabilityIndex()
        for tier in tiers:
            self.staff(tier)
        self.routers = [Chooser(index=self.index, rng=Random(number), memory=Memory()) for number in range(routers)]
        self.rng = Random(7)

    def staff(self, tier: str) -> None:
        for number in range(2):
            add(self.index, f"{tier}-{number}", "work", tier=tier, concurrency=1_000)

    def close(self, tier: str) -> None:
        for number in range(2):
            self.index.apply("gone", f"{tier}-{number}", b"")

    def policy(self, tiers: Sequence[str], **weights: float) -> None:
        policy = RoutePolicy(strategy="tiered", tiers=tuple(tiers), weights=weights)
        self.index.apply("route", "capability:work", encode_policy(policy))

    def send(self, count: int = COUNT, tier: str | None = None) -> dict[str, float]:
        """The share of each tier in per cent."""
        had: Counter[str] = Counter()
        for _ in range(count):
            (chosen,) = decide(message(tier=tier), None, self.rng.choice(self.routers), NOW).why.chosen
            had[chosen.partition("-")[0]] += 1
        return {name: 100 * number / count for name, number in had.items()}


@pytest.mark.parametrize("routers", [1, 4])
def test_shares_are_exact_to_a_hundredth_over_any_number_of_routers(routers: int) -> None:
    town = Town("small", "medium", "large", routers=routers)
    town.policy(["small", "medium", "large"], small=7, medium=2.5, large=0.5)
    assert town.send(10_000) == pytest.approx({"small": 70, "medium": 25, "large": 5}, abs=0.1)


def test_new_shares_hold_from_the_next_message_on() -> None:
    town = Town("small", "large", routers=2)
    town.policy(["small", "large"], small=9, large=1)
    town.send(333)
    town.policy(["small", "large"], small=1, large=3)
    assert town.send() == pytest.approx({"small": 25, "large": 75}, abs=0.5)


def test_a_tier_that_comes_and_one_that_goes_change_the_shares_at_once() -> None:
    town = Town("small", "large", "huge")
    town.policy(["small", "large"], small=1, large=1)
    town.send(100)
    town.policy(["small", "huge"], small=1, huge=4)
    assert town.send() == pytest.approx({"small": 20, "huge": 80}, abs=0.1)


def test_the_share_of_a_tier_without_agents_is_the_next_ones_until_somebody_is_there() -> None:
    town = Town("small", "large")
    town.policy(["small", "medium", "large"], small=5, medium=3, large=2)
    assert town.send() == pytest.approx({"small": 50, "large": 50}, abs=0.1), "large stands in for medium"
    town.staff("medium")
    assert town.send() == pytest.approx({"small": 50, "medium": 30, "large": 20}, abs=0.1), "nothing is made up for"
    town.close("small")
    assert town.send() == pytest.approx({"medium": 80, "large": 20}, abs=0.1)


def test_the_last_of_the_list_is_stood_in_for_by_the_first() -> None:
    town = Town("small", "medium")
    town.policy(["small", "medium", "large"], small=5, medium=3, large=2)
    assert town.send() == pytest.approx({"small": 70, "medium": 30}, abs=0.1)


def test_a_tier_without_a_share_gets_nothing_but_what_needs_it() -> None:
    town = Town("small", "large")
    town.policy(["small", "large"], small=1, large=0)
    assert town.send() == {"small": 100}
    assert town.send(100, tier="large") == {"large": 100}


def test_what_needs_a_tier_takes_no_turn_of_the_others() -> None:
    town = Town("small", "large")
    town.policy(["small", "large"], small=1, large=1)
    told = [town.send(1) if number % 2 else town.send(1, tier="large") for number in range(200)]
    assert all(one == {"large": 100} for one in told[::2])
    assert sum("small" in one for one in told[1::2]) == 50


def test_a_message_that_needs_a_tier_goes_there_whatever_the_strategy() -> None:
    town = Town("small", "large")
    add(town.index, "untiered-0", "work")
    assert town.send(50, tier="large") == {"large": 100.0}
    town.close("large")
    assert set(town.send(50, tier="large")) == {"small", "untiered"}, "a preference: nobody is refused for it"


# ---------------------------------------------------------------- the strategy alone
def tiers(*declared: str | int | None) -> list[Agent]:
    index = CapabilityIndex()
    for at, tier in enumerate(declared):
        add(index, f"a{at}", "work", tier=tier)
    return list(index.agents.values())


def tier_view(weights: dict[str, float], *names: str | int) -> View:
    return View(now_ms=NOW, alive_since_ms=NOW - 15_000, policy=RoutePolicy(tiers=names, weights=weights))


def test_tiers_have_their_exact_shares() -> None:
    candidates = tiers("small", "small", "large", 3)
    seen, memory, rng = tier_view({"small": 7, "large": 2.5, "3": 0.5}, "small", "large", 3), Memory(), Random(1)
    drawn = Counter(
        str(STRATEGIES["tiered"](candidates, message(), seen, memory, rng).chosen[0].declared.tier)
        for _ in range(10_000)
    )
    assert {tier: round(count / 100, 1) for tier, count in drawn.items()} == {"small": 70.0, "large": 25.0, "3": 5.0}


def test_a_message_that_needs_a_tier_goes_there() -> None:
    candidates, seen, memory = tiers("small", "large"), tier_view({}, "small", "large"), Memory()
    chosen = [
        STRATEGIES["tiered"](candidates, message(tier="large"), seen, memory, Random(1)).chosen[0] for _ in range(5)
    ]
    assert {agent.declared.tier for agent in chosen} == {"large"}


def test_a_tier_that_the_policy_does_not_name_is_found_all_the_same() -> None:
    candidates, seen, memory = tiers("small", "gpu"), tier_view({}, "small", "big"), Memory()
    chosen = [
        STRATEGIES["tiered"](candidates, message(tier="gpu"), seen, memory, Random(1)).chosen[0] for _ in range(5)
    ]
    assert {agent.declared.tier for agent in chosen} == {"gpu"}


def test_where_nobody_of_the_tier_fits_the_next_one_stands_in() -> None:
    seen, memory = tier_view({}, "small", "medium", "large"), Memory()
    for there, wanted, found in (("large", "small", "large"), ("small", "large", "small"), (None, "small", "None")):
        chosen = STRATEGIES["tiered"](tiers(there), message(tier=wanted), seen, memory, Random(1)).chosen
        assert str(chosen[0].declared.tier) == found


def test_without_a_list_the_tiers_that_are_there_take_turns() -> None:
    candidates, memory = tiers("x", "y"), Memory()
    drawn = [
        STRATEGIES["tiered"](candidates, message(), tier_view({}), memory, Random(1)).chosen[0].declared.tier
        for _ in range(4)
    ]
    assert drawn == ["x", "y", "x", "y"]


def test_without_a_list_each_tier_has_its_weight_and_who_is_of_none_is_one_of_its_own() -> None:
    candidates, memory, rng = tiers("large", None, "small", "small"), Memory(), Random(1)
    drawn = Counter(
        STRATEGIES["tiered"](candidates, message(), tier_view({"large": 2}), memory, rng).chosen[0].declared.tier
        for _ in range(400)
    )
    assert drawn == {"large": 200, "small": 100, None: 100}
    chosen = STRATEGIES["tiered"](candidates, message(tier="gone"), tier_view({}), memory, rng).chosen
    assert chosen[0].declared.tier == "large", "who is of none stands in last"


def test_the_word_none_is_no_tier_that_anybody_is_of_by_saying_nothing() -> None:
    candidates = tiers(None, "small")
    chosen = STRATEGIES["tiered"](candidates, message(tier="None"), tier_view({}, "small"), Memory(), Random(1)).chosen
    assert chosen[0].declared.tier == "small"
