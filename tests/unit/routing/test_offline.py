"""Who is gone, since when and why, as routers know it and as it is read."""

import pytest

from reach.registry.offline import read_offline
from reach.routing.index import CapabilityIndex
from reach.routing.offline import REMEMBERED_MS, Gone, Offline
from tests.unit.registry.place import Place

NOW = 1_000_000_000_000


def tombstone(at_ms: int, why: str = "silent", more: str = "") -> bytes:
    return f'{{"gone_at":{at_ms},"v":3,"why":"{why}"{more}}}'.encode()


def test_they_are_listed_the_last_one_first_for_a_day() -> None:
    offline = Offline()
    offline.load(
        {
            "a": tombstone(NOW - 5_000, "left"),
            "b": tombstone(NOW - 1_000, "silent", f',"seen_at":{NOW - 31_000}'),
            "old": tombstone(NOW - REMEMBERED_MS - 1),
            "of-before": b'{"gone_at":%d,"v":1}' % (NOW - 9_000),
        }
    )
    assert offline.within(NOW) == [
        Gone("b", NOW - 1_000, "silent", NOW - 31_000),
        Gone("a", NOW - 5_000, "left"),
        Gone("of-before", NOW - 9_000, "removed"),
    ]
    assert offline.counts(NOW) == {"left": 1, "silent": 1, "removed": 1}
    assert offline.counts(NOW, for_ms=5_000) == {"left": 1, "silent": 0, "removed": 1}
    offline.back("b")
    offline.back("b")
    assert offline.counts(NOW) == {"left": 1, "silent": 0, "removed": 1}
    assert offline.counts(NOW + REMEMBERED_MS) == {"left": 0, "silent": 0, "removed": 0}
    offline.load({})
    assert offline.within(NOW) == []


@pytest.mark.parametrize("data", [b"", b"junk", b'{"gone_at":"now"}', b'{"gone_at":1e999}'])
def test_a_tombstone_that_cannot_be_read_is_told_and_left_out(data: bytes) -> None:
    told: list[str] = []
    offline = Offline(lambda name, _problem: told.append(name))
    offline.load({"a": data, "b": tombstone(NOW)})
    assert ([one.agent_id for one in offline.within(NOW)], told) == (["b"], ["a"])


def test_a_why_of_a_later_version_counts_as_removed() -> None:
    offline = Offline()
    offline.note("a", tombstone(NOW, "retired"))
    assert [one.why for one in offline.within(NOW)] == ["retired"]
    assert offline.counts(NOW) == {"left": 0, "silent": 0, "removed": 1}


def test_an_index_hears_who_goes_and_who_comes_back() -> None:
    index = CapabilityIndex()
    index.offline.load({"a": tombstone(NOW)})
    index.apply("gone", "b", tombstone(NOW, "left"))
    index.apply("gone", "c/i1", b"")  # an instance alone
    assert [one.agent_id for one in index.offline.within(NOW)] == ["a", "b"]
    index.apply("agent", "a", b'{"agent_id":"a","instance_id":"i1","v":4}')
    assert [one.agent_id for one in index.offline.within(NOW)] == ["b"]


async def test_it_is_read_of_a_backend() -> None:
    place = Place()
    await place.register("a", "i1")
    await place.ask({"op": "leave", "agent_id": "a", "instance_id": "i1"})
    offline, now_ms = await read_offline(place.backend)
    assert now_ms == place.clock.wall_ms()
    assert offline.within(now_ms) == [Gone("a", now_ms, "left")]
