"""Keys, types, lifetimes."""

import pytest

from reach.backend.memory_backend.store import STORES, Hash, MessageRecord, Store, WrongType, ZSet
from reach.envelope.ledger import Head, Leg, LegState
from tests.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock)


def test_a_key_ends_with_its_lifetime(store: Store, clock: ManualClock) -> None:
    store.put("k", b"v")
    store.expire_at("k", 1_000_500)
    clock.advance(499)
    assert (store.string("k"), store.expires_at_ms("k")) == (b"v", 1_000_500)
    clock.advance(1)
    assert store.string("k") is None
    assert store.keys() == []


def test_a_renewed_lifetime_counts_and_a_new_value_has_none(store: Store, clock: ManualClock) -> None:
    store.put("k", b"v")
    store.expire_at("k", 1_000_010)
    store.expire_at("k", 1_000_100)
    clock.advance(50)
    store.expire()
    assert store.exists("k")
    store.put("k", b"w")
    clock.advance(1_000)
    store.expire()
    assert store.string("k") == b"w"


def test_what_nobody_asks_for_goes_too(store: Store, clock: ManualClock) -> None:
    for n in range(100):
        store.put(f"k{n}", b"v")
        store.expire_at(f"k{n}", 1_000_000 + n)
    clock.advance(49)
    store.expire()
    assert len(store.keys()) == 50


def test_another_type_is_an_error_that_names_the_key(store: Store) -> None:
    store.put("k", b"v")
    with pytest.raises(WrongType) as caught:
        store.stream("k")
    assert caught.value.details == {"key": "k", "type": "string"}
    with pytest.raises(WrongType):
        store.append("k", {b"e": b"x"}, make=False)


def test_append_makes_a_stream_only_where_it_may(store: Store) -> None:
    assert store.append("k", {b"e": b"x"}, make=False) is None
    assert store.keys() == []
    assert store.append("k", {b"e": b"x"}) == "1000000-0"
    assert store.append("k", {b"e": b"x"}, make=False) == "1000000-1"


def test_types_are_those_of_redis(store: Store) -> None:
    head = Head("f", "s", "one", "normal", 1, 1, 1, 1, 1, "")
    store.put("one", MessageRecord(head, {0: Leg(LegState.NEW)}))
    store.put("all", MessageRecord(Head("f", "s", "all", "normal", 1, 1, 1, 1, 1, ""), {}))
    store.make_hash("hash")["a"] = b"1"
    store.make_zset("zset")["a"] = 1
    store.make_stream("stream")
    store.put("string", b"")
    assert {key: store.type_of(key) for key in sorted(store.keys())} == {
        "one": "string",
        "all": "hash",
        "hash": "hash",
        "zset": "zset",
        "stream": "stream",
        "string": "string",
    }
    assert store.type_of("none") is None


def test_what_is_empty_is_dropped_and_what_is_wrong_is_cleared(store: Store) -> None:
    store.put("h", Hash())
    store.put("z", ZSet(a=1))
    for key in ("h", "z", "none"):
        store.drop_empty(key)
    assert store.keys() == ["z"]
    store.clear_wrong("z", "zset")
    assert store.keys() == ["z"]
    store.clear_wrong("z", "hash")
    assert store.keys() == []


def test_the_lowest_of_a_sorted_set() -> None:
    zset = ZSet(c=3, a=1, b=1, d=9)
    assert zset.lowest(3, 10) == ["a", "b", "c"]
    assert zset.lowest(9, 2) == ["a", "b"]


def test_one_name_is_one_store_until_it_is_dropped() -> None:
    first = STORES.get("test-store")
    try:
        assert STORES.get("test-store") is first
        assert STORES.get("test-store-2") is not first
        assert set(STORES) >= {"test-store", "test-store-2"}
    finally:
        STORES.drop("test-store")
        STORES.drop("test-store-2")
    assert STORES.get("test-store") is not first
    STORES.drop("test-store")
