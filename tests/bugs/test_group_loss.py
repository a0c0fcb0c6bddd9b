"""GROUP-LOSS: a consumer group or its stream is gone. Whoever reads makes it anew, paced, and says so without flooding the log."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
import redis.asyncio

from reach.backend.keys import KeySpace
from reach.testing import wait_until
from tests.bugs.town import AGENTS, Load, town
from tests.contract.drive import AGENT, Drive, success
from tests.contract.places import KEYS
from tests.lag import lagging
from tests.servers import StartServer

BACK_S = 2.0
REGISTERED_S = 5.0
PATIENT_S = 15.0  # how long a test waits before it says that it will never be


async def test_B001_a_server_that_comes_back_empty_is_served_within_two_seconds(start_server: StartServer) -> None:
    server = start_server()  # which keeps nothing
    async with town(server.url) as reach:
        async with lagging() as lag, Load(reach) as load:
            await wait_until(lambda: len(load.receipts) >= 20)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)
            back = time.monotonic()

            async def all_registered() -> bool:
                return {name for name in AGENTS if (await reach.backend.registration(name))[1]} == set(AGENTS)

            await wait_until(all_registered, PATIENT_S, "both agents in the registry")
            assert time.monotonic() - back < REGISTERED_S + lag.allowed_s
            await wait_until(lambda: len([at for at, _ in load.spans if at > back + BACK_S]) >= 20, PATIENT_S)
        ended = list(zip(load.spans, load.receipts, strict=True))
        assert len(ended) == load.asked
        assert reach.outstanding == 0
        assert {receipt.code for _, receipt in ended} <= {"ok", "timeout.total"}
        assert {receipt.code for (asked_at, _), receipt in ended if asked_at > back + BACK_S + lag.allowed_s} <= {"ok"}
        first = min(end for (asked_at, end), receipt in ended if receipt.ok and asked_at > back)
        assert first - back < BACK_S + lag.allowed_s


async def test_B003_a_stream_that_is_deleted_again_and_again_is_healed_in_pace_and_said_once(
    redis_url: str, raw: redis.asyncio.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    keys = KeySpace("dev")
    async with town(redis_url) as reach:
        assert (await reach.request("capability:echo", 0)).ok
        caplog.set_level(logging.WARNING)
        streams = [
            *keys.work(0),
            keys.control(),
            keys.changes(),
            *(keys.inbox(0, name, "normal") for name in AGENTS),
        ]
        began = time.monotonic()
        for _ in range(12):
            await raw.delete(*streams)
            assert (await reach.request("capability:echo", 1, timeout=10)).ok
        took_s = time.monotonic() - began
    said = Counter(record.getMessage() for record in caplog.records)
    assert said, "nothing was said at all"
    most = 1 + took_s // 10
    assert not {line: count for line, count in said.items() if count > most}, took_s


#: everything that touches a group beside the reads
TOUCHES: dict[str, Callable[[Drive], Awaitable[object]]] = {
    "own_work": lambda drive: drive.backend.own_work("router-1", 0),
    "claim_work": lambda drive: drive.backend.claim_work("router-2", 0, 60_000),
    "due": lambda drive: drive.backend.due(0),
    "sweep of the doors": lambda drive: drive.backend.sweep(0, "", 0),
    "sweep of an inbox": lambda drive: drive.backend.sweep(0, AGENT, 0),
    "drop_consumer": lambda drive: drive.backend.drop_consumer("router-1", [0]),
    "renew": lambda drive: drive.backend.renew(0, AGENT, "i1", {"normal": ["1-1"]}),
    "ring": lambda drive: drive.backend.ring(AGENT, {0: {"normal": "0"}}, 0),
    "open_inbox": lambda drive: drive.backend.open_inbox(0, AGENT),
}


async def destroy_groups(drive: Drive) -> None:
    for stream, group in (KEYS.groups(0) | KEYS.groups(0, AGENT)).items():
        if await drive.place.type_of(stream) == "stream":
            await drive.place.drop_group(stream, group)


@pytest.mark.parametrize("touch", TOUCHES)
async def test_B005_whatever_touches_a_group_that_is_gone_heals_or_passes_over_it_and_loses_nothing(
    drive: Drive, touch: str
) -> None:
    running, queued = await drive.running(), await drive.sent()
    at_the_door = await drive.entry()
    control = await drive.backend.send_control(b"{}")
    assert await drive.backend.read_control("router-1", 0)
    await destroy_groups(drive)
    await TOUCHES[touch](drive)
    assert [entry.id for entry in await drive.work("ingress")] == [at_the_door.id]
    assert [entry_id for entry_id, _ in await drive.backend.read_control("router-1", 0)] == [control]
    result = await drive.backend.take(0, AGENT, "i1", 10)
    if result.gone:
        await drive.backend.open_inbox(0, AGENT)
    taken = [*result.taken, *await drive.take()]
    assert queued in {one.msg_id for one in taken}
    for one in {one.msg_id: one for one in (running, *taken)}.values():
        assert await drive.settle(one, success()) == "done"
    assert len(await drive.receipts()) == 2


async def test_B005_what_is_acknowledged_without_a_group_is_done_and_never_comes_again(drive: Drive) -> None:
    running, at_the_door = await drive.running(), await drive.entry()
    await destroy_groups(drive)
    assert await drive.settle(running, success()) == "done"
    await drive.backend.finish_work(0, [at_the_door])
    assert await drive.work() == []
    await drive.backend.open_inbox(0, AGENT)
    assert await drive.take() == []
    assert (await drive.receipt())["code"] == "ok"


async def test_B005_what_is_routed_without_a_group_is_not_done_and_comes_again(drive: Drive) -> None:
    entry = await drive.entry()
    await destroy_groups(drive)
    await drive.backend.open_inbox(0, AGENT)
    msg_id, result = await drive.send(entry=entry)
    assert result.verdict == "skipped"  # nobody can say whether somebody else has it
    assert await drive.take() == []
    assert await drive.work() == [entry]
    assert (await drive.send(entry=entry, msg_id=msg_id))[1].verdict == "done"
    assert (await drive.taken()).msg_id == msg_id
