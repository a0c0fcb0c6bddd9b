"""Whatever is done to the inbox of an agent that only reads on: it is served again within two seconds, and nothing servable is given up."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from reach.backend.keys import GROUP_AGENT, LANES
from tests.contract.places import KEYS, Place
from tests.integration.spine import Spine, envelope, until
from tests.lag import in_time

AGENT = "refund-1"
PRIORITY = {"high": 9, "normal": 5, "low": 2}
WITHIN_S = 2.0
PATIENT_S = 15.0  # how long a test waits before it says that it will never be


def inbox(lane: str) -> str:
    return KEYS.inbox(0, AGENT, lane)


async def harm(place: Place, how: str, lane: str) -> None:
    """What can be done to a lane behind everybody's back."""
    if how == "group":
        if await place.type_of(inbox(lane)) == "stream":
            await place.drop_group(inbox(lane), GROUP_AGENT)
    elif how == "key":
        await place.delete(inbox(lane))
    else:
        await place.spoil(inbox(lane))


class Reader:
    """An agent with plain commands: reads its lanes, answers what comes, knows nothing of healing."""

    def __init__(self, spine: Spine) -> None:
        self.spine = spine
        self.seen: list[str] = []
        self.stopped = False

    async def look(self) -> None:
        """Read each lane once. A lane that cannot be read is read again later, as a loop around XREADGROUP does."""
        for lane in LANES:
            try:
                hands = await self.spine.place.read_plain(inbox(lane), GROUP_AGENT, f"{AGENT}.1", 50)
            except Exception:  # noqa: BLE001 - NOGROUP, WRONGTYPE, and what stands for them in memory
                continue
            entries = dict(await self.spine.place.entries(inbox(lane))) if hands else {}
            for hand in hands:
                if hand in entries:
                    msg_id = entries[hand][b"m"].decode()
                    self.seen.append(msg_id)
                    await self.spine.settle(msg_id, hand, {"status": "success"})

    async def run(self) -> None:
        while not self.stopped:
            await self.look()
            await asyncio.sleep(0.01)


@asynccontextmanager
async def reading(spine: Spine) -> AsyncIterator[Reader]:
    reader = Reader(spine)
    task = asyncio.create_task(reader.run())
    try:
        yield reader
    finally:
        reader.stopped = True  # and not cancelled: redis-py may swallow that
        await task


@pytest.fixture
async def known(spine: Spine) -> Spine:
    await spine.register(AGENT, "refund")
    watcher = next(service for service in spine.services if service.name == "watcher")

    async def seen() -> bool:
        return AGENT in watcher.index.agents  # type: ignore[attr-defined]

    await until(seen, "the agent in the index")
    return spine


HARMS = pytest.mark.parametrize("how", ["group", "key", "type"])


@pytest.mark.leaves_work(why="somebody by hand waits at the inbox, and does not say goodbye")
@HARMS
async def test_an_idle_inbox_comes_back_by_itself(known: Spine, how: str) -> None:
    for lane in LANES:
        await harm(known.place, how, lane)

    async def readable() -> bool:
        try:
            for lane in LANES:
                await known.place.read_plain(inbox(lane), GROUP_AGENT, "somebody")
        except Exception:  # noqa: BLE001 - as above
            return False
        return True

    async with in_time(WITHIN_S):
        await until(readable, "all lanes", PATIENT_S)


@HARMS
async def test_what_is_sent_then_is_served(known: Spine, how: str) -> None:
    async with reading(known):
        for lane in LANES:
            await harm(known.place, how, lane)
            made = envelope(priority=PRIORITY[lane])
            async with in_time(WITHIN_S):
                await known.send(made)
                receipt = await known.receipt(made["msg_id"], PATIENT_S)
            assert (receipt["code"], receipt["attempts"], receipt["target_agent"]) == ("ok", 1, AGENT)


async def test_what_lies_in_lanes_that_lose_their_group_is_served(known: Spine) -> None:
    made = [
        envelope(priority=priority, timeouts={"network_ms": 600_000})
        for priority in PRIORITY.values()
        for _ in range(20)
    ]
    for one in made:
        await known.send(one)

    async def lie_there() -> bool:
        return sum([len(await known.place.entries(inbox(lane))) for lane in LANES]) == len(made)

    await until(lie_there, "all of them in the inbox")
    for lane in LANES:
        await harm(known.place, "group", lane)
    async with reading(known) as reader:

        async def all_answered() -> bool:
            return len(await known.mail()) == len(made)

        async with in_time(WITHIN_S):
            await until(all_answered, "all receipts", PATIENT_S)
    assert {receipt["code"] for receipt in await known.mail()} == {"ok"}
    assert sorted(reader.seen) == sorted(one["msg_id"] for one in made)


@HARMS
async def test_under_load_only_what_was_destroyed_is_lost(known: Spine, how: str) -> None:
    """What is lost with a deleted key ends retryable; what comes after it is served within two seconds."""
    sent: list[str] = []
    sending = True

    async def send() -> None:
        number = 0
        while sending:
            number += 1
            made = envelope(priority=(9, 5, 2)[number % 3], timeouts={"network_ms": 1_000})
            sent.append(await known.send(made))
            await asyncio.sleep(0.004)

    async with reading(known):
        load = asyncio.create_task(send())
        for lane in LANES:
            await until(lambda: known.place.entries(KEYS.mail(0, "box.1")), "traffic")
            await harm(known.place, how, lane)
            probe = envelope(priority=PRIORITY[lane])
            async with in_time(WITHIN_S):
                await known.send(probe)
                assert (await known.receipt(probe["msg_id"], PATIENT_S))["code"] == "ok"
        sending = False
        await load

        async def all_ended() -> bool:
            return len(await known.mail()) == len(sent) + len(LANES)

        await until(all_ended, "every receipt", 10)
    codes = Counter(receipt["code"] for receipt in await known.mail())
    assert codes.keys() <= ({"ok"} if how == "group" else {"ok", "backend.unavailable"})
    assert codes["ok"] >= len(sent) // 2
    await known.quiet()
