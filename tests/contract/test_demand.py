"""Counts of demand that routers share, and what lies in inboxes."""

from tests.contract.drive import AGENT, Drive
from tests.contract.places import KEYS


async def test_what_is_told_is_read_and_can_be_dropped(drive: Drive) -> None:
    backend = drive.backend
    assert await backend.read_demand() == {}
    await backend.tell_demand("w1", b"1")
    await backend.tell_demand("w2", b"2")
    await backend.tell_demand("w1", b"\x00\xff")
    assert await backend.read_demand() == {"w1": b"\x00\xff", "w2": b"2"}
    await backend.tell_demand(":wanted", b"{}", ["w2", "never there"])
    assert await backend.read_demand() == {"w1": b"\x00\xff", ":wanted": b"{}"}


async def test_a_minute_after_the_last_it_is_gone(drive: Drive) -> None:
    await drive.backend.tell_demand("w1", b"1")
    await drive.place.pass_time(40_000)
    await drive.backend.tell_demand("w2", b"2")
    await drive.place.pass_time(40_000)
    assert set(await drive.backend.read_demand()) == {"w1", "w2"}
    await drive.place.pass_time(21_000)
    assert await drive.backend.read_demand() == {}


async def test_what_lies_in_inboxes_is_counted_with_what_runs(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    for _ in range(3):
        await drive.sent()
    await drive.sent(lane="high")
    await drive.take(free=1)
    assert await drive.backend.lying([AGENT, "a2", "nobody"]) == [4, 0, 0]
    assert await drive.backend.lying([]) == []


async def test_a_key_of_another_type_makes_way(drive: Drive) -> None:
    await drive.place.push(KEYS.demand(), "no hash")
    assert await drive.backend.read_demand() == {}
    await drive.backend.tell_demand("w1", b"1")
    assert await drive.backend.read_demand() == {"w1": b"1"}


async def test_who_forgets_all_leaves_nothing(drive: Drive) -> None:
    await drive.backend.tell_demand("w1", b"1", ["w1"])
    assert await drive.place.type_of(KEYS.demand()) == "none"
