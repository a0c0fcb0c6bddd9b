"""The doors of a partition: submit, read_work, own_work, claim_work, finish_work."""

from reach.backend.keys import GROUP_ROUTERS, LANES
from tests.contract.drive import ENVELOPE, Drive
from tests.contract.places import KEYS

INGRESS = KEYS.ingress(0, "normal")


async def test_what_is_submitted_comes_out_byte_for_byte(drive: Drive) -> None:
    entry_id = await drive.backend.submit(0, "high", ENVELOPE)
    (entry,) = await drive.work()
    assert (entry.kind, entry.partition, entry.id) == ("ingress", 0, entry_id)
    assert entry.stream == KEYS.ingress(0, "high")
    assert entry.fields == {b"e": ENVELOPE}


async def test_an_entry_goes_to_one_router_only(drive: Drive) -> None:
    other = await drive.place.connect()
    await drive.backend.submit(0, "normal", ENVELOPE)
    assert len(await drive.work()) == 1
    assert await other.read_work("router-2", [0], 10, 0) == []


async def test_B007_what_was_there_before_the_group_is_read(drive: Drive) -> None:
    await drive.place.append(INGRESS, {"e": ENVELOPE})
    assert [entry.fields[b"e"] for entry in await drive.work()] == [ENVELOPE]


async def test_receipts_and_again_come_before_the_lanes_in_order(drive: Drive) -> None:
    for lane in reversed(LANES):
        await drive.backend.submit(0, lane, lane.encode())
    await drive.place.append(KEYS.again(0), {"m": b"x", "l": b"0", "h": b"0"})
    await drive.place.append(KEYS.receipts(0), {"m": b"x", "l": b"0", "h": b"0", "r": b"{}"})
    streams = [entry.stream for entry in await drive.work()]
    assert streams == list(KEYS.work(0))


async def test_max_entries_counts_per_stream(drive: Drive) -> None:
    for lane in LANES:
        await drive.backend.submit(0, lane, b"1")
        await drive.backend.submit(0, lane, b"2")
    assert len(await drive.backend.read_work("router-1", [0], 1, 0)) == len(LANES)


async def test_a_read_of_nothing_ends_after_its_time(drive: Drive) -> None:
    assert await drive.backend.read_work("router-1", [0], 10, 20) == []


async def test_several_partitions_are_read_at_once(drive: Drive) -> None:
    await drive.backend.submit(0, "low", b"0")
    await drive.backend.submit(3, "low", b"3")
    entries = await drive.backend.read_work("router-1", [0, 3], 10, 0)
    assert {(entry.partition, entry.fields[b"e"]) for entry in entries} == {(0, b"0"), (3, b"3")}


async def test_own_work_gives_again_what_was_read_and_not_finished(drive: Drive) -> None:
    read = [await drive.entry(), await drive.entry()]
    assert await drive.backend.own_work("router-1", 0) == read
    assert await drive.backend.own_work("router-1", 0) == read
    assert await drive.backend.own_work("router-2", 0) == []


async def test_own_work_is_given_whole_however_much_it_is(drive: Drive) -> None:
    for number in range(401):
        await drive.backend.submit(0, "low", b"%d" % number)
    read = await drive.backend.read_work("router-1", [0], 500, 0)
    assert await drive.backend.own_work("router-1", 0) == read
    assert [entry.fields[b"e"] for entry in read] == [b"%d" % number for number in range(401)]


async def test_finished_work_is_gone_and_finishing_twice_is_nothing(drive: Drive) -> None:
    entry = await drive.entry()
    await drive.backend.finish_work(0, [entry])
    await drive.backend.finish_work(0, [entry])
    assert await drive.backend.own_work("router-1", 0) == []
    assert await drive.place.entries(INGRESS) == []


async def test_idle_work_is_claimed_from_anyone(drive: Drive) -> None:
    entry = await drive.entry()
    assert await drive.backend.claim_work("router-2", 0, 5_000) == []
    await drive.place.pass_time(5_001)
    assert await drive.backend.claim_work("router-2", 0, 5_000) == [entry]
    assert await drive.backend.own_work("router-1", 0) == []
    assert await drive.backend.own_work("router-2", 0) == [entry]


async def test_a_claim_resets_the_idle_time(drive: Drive) -> None:
    await drive.entry()
    await drive.place.pass_time(5_001)
    await drive.backend.claim_work("router-2", 0, 5_000)
    assert await drive.backend.claim_work("router-3", 0, 5_000) == []


async def test_reading_ones_own_work_again_resets_the_idle_time(drive: Drive) -> None:
    """Who reads again is alive: nobody takes it away from him meanwhile."""
    entry = await drive.entry()
    await drive.place.pass_time(5_001)
    assert await drive.backend.own_work("router-1", 0) == [entry]
    assert await drive.backend.claim_work("router-2", 0, 5_000) == []
    assert [row.deliveries for row in await drive.place.pending(INGRESS, GROUP_ROUTERS)] == [2]
    await drive.place.pass_time(5_001)
    assert await drive.backend.claim_work("router-2", 0, 5_000) == [entry]


async def test_claims_are_bounded(drive: Drive) -> None:
    for _ in range(5):
        await drive.entry()
    await drive.place.pass_time(5_001)
    assert len(await drive.backend.claim_work("router-2", 0, 5_000, 2)) == 2
    assert len(await drive.backend.claim_work("router-2", 0, 5_000, 100)) == 3


async def test_B015_an_entry_without_a_body_is_acknowledged_and_never_comes_again(drive: Drive) -> None:
    gone, kept = await drive.entry(), await drive.entry()
    await drive.place.remove(INGRESS, gone.id)
    await drive.place.pass_time(5_001)
    assert await drive.backend.claim_work("router-2", 0, 5_000) == [kept]
    assert [row.id for row in await drive.place.pending(INGRESS, GROUP_ROUTERS)] == [kept.id]


async def test_B015_own_work_without_a_body_is_acknowledged(drive: Drive) -> None:
    gone = await drive.entry()
    await drive.place.remove(INGRESS, gone.id)
    assert await drive.backend.own_work("router-1", 0) == []
    assert await drive.place.pending(INGRESS, GROUP_ROUTERS) == []


async def test_B005_a_lost_group_comes_back_at_zero_on_every_path(drive: Drive) -> None:
    """The claim path heals as the read path does."""
    await drive.backend.submit(0, "normal", ENVELOPE)
    await drive.work()
    await drive.place.drop_group(INGRESS, GROUP_ROUTERS)
    assert await drive.backend.claim_work("router-1", 0, 5_000) == []
    assert [entry.fields[b"e"] for entry in await drive.work()] == [ENVELOPE]
    await drive.place.drop_group(INGRESS, GROUP_ROUTERS)
    assert await drive.backend.own_work("router-1", 0) == []
    await drive.place.drop_group(INGRESS, GROUP_ROUTERS)
    assert [entry.fields[b"e"] for entry in await drive.work()] == [ENVELOPE]


async def test_entries_of_foreign_senders_keep_unknown_fields(drive: Drive) -> None:
    await drive.place.append(INGRESS, {"e": b"{}", "x": b"\xff\x00"})
    (entry,) = await drive.work()
    assert entry.fields == {b"e": b"{}", b"x": b"\xff\x00"}
