"""How much lies where: what metrics tell of an env."""

from reach.backend.depth_port import Depth, Depths
from reach.backend.steps import Plan
from reach.ids import stream_id
from tests.contract.drive import AGENT, Drive, retryable
from tests.contract.places import KEYS

STREAMS = ["control", "receipts", "again", "ingress"]


async def look(drive: Drive, *agents: str) -> tuple[Depths, dict[str, Depth]]:
    depths = await drive.backend.depths(agents, "g")
    return depths, {one.agent or one.stream: one for one in depths.streams}


async def test_an_empty_env_holds_nothing(drive: Drive) -> None:
    depths, by_name = await look(drive, "nobody")
    assert list(by_name) == [*STREAMS, "nobody"]
    assert all((one.waiting, one.taken, one.oldest_at_ms) == (0, 0, 0) for one in depths.streams)
    assert (depths.dead, depths.behind, depths.behind_since_ms, depths.followers) == (0, 0, 0, frozenset())


async def test_what_nobody_has_taken_and_what_somebody_has(drive: Drive) -> None:
    for lane in ("high", "normal", "low"):
        await drive.sent(lane=lane)
    first = (await drive.inbox(lane="high"))[0][0]
    depths, by_name = await look(drive, AGENT)
    assert by_name[AGENT] == Depth("inbox", AGENT, 3, 0, stream_id(first)[0])
    assert by_name[AGENT].oldest_at_ms <= depths.now_ms
    await drive.take(free=2)
    _, by_name = await look(drive, AGENT)
    assert by_name[AGENT] == Depth("inbox", AGENT, 1, 2, stream_id(first)[0])


async def test_the_doors_and_who_works_at_them(drive: Drive) -> None:
    await drive.backend.submit(0, "normal", b"{}")
    await drive.backend.submit(0, "low", b"{}")
    _, by_name = await look(drive)
    assert (by_name["ingress"].waiting, by_name["ingress"].taken) == (2, 0)
    read = await drive.backend.read_work("w9", [0], 1, 0)
    depths, by_name = await look(drive)
    assert (by_name["ingress"].waiting, by_name["ingress"].taken) == (2 - len(read), len(read))
    assert "w9" in depths.workers
    await drive.backend.finish_work(0, read)
    await drive.backend.drop_consumer("w9", [0])
    assert "w9" not in (await look(drive))[0].workers


async def test_a_router_at_quiet_doors_is_seen(drive: Drive) -> None:
    """Some servers note only when a reader was given something; every router also claims at `control`."""
    await drive.backend.read_control("w8", 0)
    assert "w8" in (await look(drive))[0].workers


async def test_what_comes_back_lies_in_again_and_goes_with_its_end_to_the_dead(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, retryable())
    _, by_name = await look(drive)
    assert by_name["again"].waiting == 1
    await drive.decide(await drive.asked_again(), Plan("finish", answer=retryable(), dead=True))
    depths, by_name = await look(drive)
    assert (by_name["again"].waiting, by_name["again"].taken, depths.dead) == (0, 0, 1)


async def test_how_far_behind_the_followers_of_events_are(drive: Drive) -> None:
    backend = drive.backend
    for _ in range(3):
        await backend.record(0, b"[]")
    assert (await look(drive))[0].behind == 0, "nobody follows"
    followed = await backend.follow_events(0, "g", "r", 2)
    depths, _ = await look(drive)
    assert (depths.behind, depths.followers) == (3, frozenset({"r"}))
    assert 0 < depths.behind_since_ms <= depths.now_ms
    await backend.finish_events(0, "g", [entry_id for entry_id, _ in followed.batches])
    assert (await look(drive))[0].behind == 1
    (last,) = (await backend.follow_events(0, "g", "r")).batches
    await backend.finish_events(0, "g", [last[0]])
    depths, _ = await look(drive)
    assert (depths.behind, depths.behind_since_ms) == (0, 0)


async def test_a_key_of_another_type_holds_nothing_and_is_left_alone(drive: Drive) -> None:
    key = KEYS.ingress(0, "normal")
    await drive.place.delete(key)
    await drive.place.push(key, "no stream")
    _, by_name = await look(drive)
    assert by_name["ingress"].waiting == 0
    assert await drive.place.type_of(key) == "list"
    await drive.place.delete(key)
