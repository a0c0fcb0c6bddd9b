"""Who offers which capability: by name, by prefix, and nothing is left of who has gone."""

from random import Random

import pytest

from reach.routing.offers import FEW, Offers


def test_one_two_and_one_again() -> None:
    offers = Offers()
    assert offers.of("refund") == set()
    offers.add("refund", "a")
    offers.add("refund", "a")
    assert (offers.of("refund"), len(offers)) == ({"a"}, 1)
    offers.add("refund", "b")
    offers.add("refund", "c")
    assert offers.of("refund") == {"a", "b", "c"}
    offers.drop("refund", "a")
    offers.drop("refund", "b")
    assert offers.of("refund") == {"c"}
    offers.drop("refund", "c")
    assert (offers.of("refund"), list(offers), offers.names()) == (set(), [], [])


def test_a_prefix_is_everything_below_it() -> None:
    offers = Offers()
    for capability, agent_id in (("order.pay", "a"), ("order.cancel", "b"), ("order.cancel", "c"), ("orders", "d")):
        offers.add(capability, agent_id)
    assert offers.below("order.") == {"a", "b", "c"}
    offers.add("order.track", "e")  # after somebody has asked
    assert offers.below("order.") == {"a", "b", "c", "e"}
    assert offers.below("orderz") == set()
    offers.clear()
    assert (offers.below("order."), len(offers)) == (set(), 0)


@pytest.mark.parametrize("at_once", [1, FEW + 1])
def test_names_stay_in_order_however_many_come_and_go_between_two_questions(at_once: int) -> None:
    rng, offers, expected = Random(at_once), Offers(), set[str]()
    for _ in range(20):
        for _ in range(at_once):
            name = f"n{rng.randrange(200):03}"
            if name not in expected:
                offers.add(name, "a")
                expected.add(name)
        for name in rng.sample(sorted(expected), len(expected) // 3):
            offers.drop(name, "a")
            expected.remove(name)
        assert offers.names() == sorted(expected)
        for name in rng.sample(sorted(expected), len(expected) // 3):
            offers.drop(name, "a")
            expected.remove(name)
    assert offers.names() == sorted(expected)
