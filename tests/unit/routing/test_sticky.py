"""sticky: what belongs together stays together; who leaves takes only its own along, and gets it back when it is there again."""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from reach.envelope.circuit import OpenCircuit
from reach.routing.decide import Chooser, decide
from reach.routing.filters import Unfit
from reach.routing.index import CapabilityIndex
from reach.routing.strategies import Memory
from tests.unit.routing.seen import NOW, add, message

NAMES = st.sets(st.text("abcdefghij0123456789-", min_size=1, max_size=12), min_size=2, max_size=30)


def fleet(*names: str) -> CapabilityIndex:
    index = CapabilityIndex()
    for name in names:
        add(index, name, "work")
    index.apply("route", "capability:work", b'{"strategy":"sticky"}')
    return index


def keeper(index: CapabilityIndex, key: str, unfit: dict[str, Unfit] | None = None, order_key: str = "") -> str:
    by = Chooser(index=index, rng=Random(), memory=Memory())
    (chosen,) = decide(message(conversation=key, order_key=order_key), None, by, NOW, unfit=unfit).why.chosen
    return chosen


def keepers(index: CapabilityIndex, count: int = 100) -> dict[str, str]:
    return {f"k{number}": keeper(index, f"k{number}") for number in range(count)}


@settings(max_examples=15, deadline=None)
@given(NAMES, st.randoms(use_true_random=False))
def test_when_one_leaves_only_what_it_had_moves_and_comes_back_with_it(names: set[str], chance: Random) -> None:
    index, gone = fleet(*sorted(names)), chance.choice(sorted(names))
    before = keepers(index, 60)
    index.apply("gone", gone, b"")
    after = keepers(index, 60)
    assert {key for key in before if before[key] != after[key]} == {key for key in before if before[key] == gone}
    add(index, gone, "work")
    assert keepers(index, 60) == before


def test_one_of_n_has_an_nth() -> None:
    had = Counter(keepers(fleet(*(f"a{number}" for number in range(10))), 2_000).values())
    assert max(had.values()) < 2_000 / 10 * 1.3
    assert min(had.values()) > 2_000 / 10 * 0.7


def test_every_router_chooses_alike() -> None:
    names = [f"a{number}" for number in range(10)]
    assert keepers(fleet(*names)) == keepers(fleet(*reversed(names)))


def test_the_order_key_decides_where_there_is_one() -> None:
    index = fleet(*(f"a{number}" for number in range(10)))
    assert {keeper(index, f"k{number}", order_key="account 7") for number in range(20)} == {keeper(index, "account 7")}


def test_where_its_agent_is_full_it_goes_to_the_next_in_order_and_back_afterwards() -> None:
    names = [f"a{number}" for number in range(10)]
    index = fleet(*names)
    for key, kept in keepers(index, 50).items():
        without = fleet(*(name for name in names if name != kept))
        assert keeper(index, key, {kept: "full"}) == keeper(without, key), "as if it had left"
        assert keeper(index, key) == kept


def test_where_its_circuit_is_open_it_goes_to_the_next_in_order_and_back_afterwards() -> None:
    names = [f"a{number}" for number in range(10)]
    index = fleet(*names)
    before = keepers(index)
    index.circuits["a3"] = {0: OpenCircuit(NOW + 30_000, "fails")}
    meanwhile = keepers(index)
    assert meanwhile == keepers(fleet(*(name for name in names if name != "a3")))
    index.apply("circuit", "a3/0", b"")
    assert keepers(index) == before
