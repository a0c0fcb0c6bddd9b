"""REPLY-RESULT: whoever asks what became of a message is told, at once or by its deadline, whatever was forgotten and whoever was away."""

import asyncio
import time
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Reach, Receipt
from reach.backend.port import Backend
from reach.backend.private_server import PrivateServer
from reach.backend.steps import Plan, Settlement
from reach.testing import wait_until
from tests.bugs.served import served
from tests.contract.drive import AGENT, TO_AGENT, Drive, new_id, retryable, success
from tests.contract.places import KEYS, Place
from tests.e2e.processes import reach as cli
from tests.faults.crash_world import CrashWorld
from tests.lag import lagging
from tests.servers import StartServer

WINDOW_MS = 60_000  # the shortest time for which an end is remembered

# ---------------------------------------------------------------- B071


async def settled(backend: Backend, msg_id: str) -> Any:
    return await backend.settle(0, AGENT, [Settlement(msg_id, 0, "1-1", success(), "i1")])


@pytest.mark.parametrize("how", ["never known", "expired", "deleted"])
async def test_B071_every_step_that_is_asked_of_a_message_that_is_gone_says_so_at_once(drive: Drive, how: str) -> None:
    msg_id, backend = new_id(), drive.backend
    if how != "never known":
        await drive.past_grace()
        await drive.settle(await drive.running(msg_id=msg_id), success())
        assert await backend.inspect(0, msg_id) is not None
    if how == "expired":
        await drive.live(30_000 + WINDOW_MS)
    elif how == "deleted":
        await drive.place.delete(KEYS.message(0, msg_id))
    assert await backend.inspect(0, msg_id, envelope=True) is None
    assert (await backend.due(0, msg_id)).deadline_at_ms == 0
    assert await settled(backend, msg_id) == ["unknown"]
    assert not await backend.progress(0, msg_id, 0, "1-1", b"{}")
    assert (await backend.once_take(0, msg_id, 0, "1-1", "pay", "me", 1_000)).state == "stale"
    assert (await backend.cancel(0, msg_id, "sender-1", 1, 1_000)).what == "tombstone"
    # What only a cancel has left behind is no message either.
    record = await backend.inspect(0, msg_id)
    assert record is not None
    assert not record.legs
    assert await settled(backend, msg_id) == ["unknown"]


async def test_B071_a_handle_tells_accepted_open_ended_and_forgotten_apart(world: CrashWorld) -> None:
    await world.client()
    reach = world.clients["client"]
    handle = await reach.send("capability:work", {"do": "ok"}, timeout=5)
    assert (await handle.status()).state == "accepted"
    await world.router()
    await world.agent("a1")
    stuck = await reach.send("capability:work", {"do": "hang"}, timeout=5)
    unread = await reach.send("capability:work", {"do": "ok"}, timeout=5)
    receipts = [await world_receipt(world, one) for one in (handle, unread)]
    assert [receipt.code for receipt in receipts] == ["ok", "ok"]
    assert [(await one.status()).state for one in (handle, stuck)] == ["ended", "open"]
    await world.advance(5_000 + WINDOW_MS + 1_000)
    assert [(await one.status()).state for one in (handle, stuck, unread)] == ["forgotten"] * 3
    # What was heard stays here, and is told at once, however often; so does the answer to a cancel.
    assert [(await one.receipt()).code for one in (handle, stuck, handle)] == ["ok", "timeout.total", "ok"]
    assert not await handle.cancel()
    assert [entry async for entry in handle.progress()] == []
    assert reach.outstanding == 0


async def world_receipt(world: CrashWorld, handle: Any) -> Receipt[Any]:
    """Its receipt, while time passes."""
    waiting = asyncio.ensure_future(handle.receipt())
    await world.until(waiting.done, "a receipt")
    return waiting.result()  # type: ignore[no-any-return]


@pytest.mark.parametrize("lost", [False, True], ids=["at the door", "flushed"])
async def test_B071_what_no_router_has_seen_ends_by_its_own_total(world: CrashWorld, lost: bool) -> None:
    await world.client()
    reach = world.clients["client"]
    handle = await reach.send("capability:work", {"do": "ok"}, timeout=5)
    if lost:
        await world.place.forget_all()
    began_ms = world.clock.monotonic_ms()
    receipt = await world_receipt(world, handle)
    assert (receipt.code, receipt.details["local"]) == ("timeout.total", True)
    assert world.clock.monotonic_ms() - began_ms <= 5_250
    assert (await handle.status()).state == "accepted"  # as far as is known here: it may lie at the door yet


async def test_B071_what_was_refused_is_not_said_to_wait(redis_url: str) -> None:
    async with served(redis_url) as reach:
        handle = await reach.send("capability:nobody", type="no.such.type")
        assert (await handle.receipt(10)).code == "type.unregistered"
        assert (await handle.status()).state == "ended"


async def test_B071_a_key_is_answered_as_long_as_its_end_is_remembered_and_then_anew(world: CrashWorld) -> None:
    await world.router()
    await world.agent("a1")
    await world.client()
    told: list[tuple[str, bool]] = []
    for wait_ms in (0, WINDOW_MS // 2, 30_000 + WINDOW_MS):
        await world.advance(wait_ms)
        call = world.ask({"do": "ok"}, key="order 7")
        await world.until(lambda call=call: call.over, "an answer")  # type: ignore[misc]
        told.append((call.codes[0], call.task.result().stored))
    assert told == [("ok", False), ("ok", True), ("ok", False)]
    assert len(world.history.runs) == 2


@pytest.mark.processes
async def test_B071_the_command_line_says_that_there_is_none_and_waits_for_nothing(redis_url: str) -> None:
    async with served(redis_url, Agent("nobody")) as reach:
        agent = Agent("failing")

        @agent.capability("fail")
        async def fail() -> None:
            raise ValueError("down")

        async with agent.running(redis_url, grace=0):
            receipt = await reach.request("capability:fail", max_attempts=1)
        (letter,) = [letter async for letter in reach.dead_letters.list()]
        await reach.dead_letters.purge([letter])
    unknown = new_id()
    for command, name in (("show", unknown), ("requeue", letter.id), ("purge", receipt.msg_id)):
        done = await asyncio.to_thread(cli, "dead", command, name, "--redis-url", redis_url)
        assert (done.returncode, done.stdout) == (1, b""), (command, done)
        assert f"no dead letter {name}" in done.stderr.decode()
    done = await asyncio.to_thread(cli, "events", unknown, "--redis-url", redis_url)
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"no records of {unknown}" in done.stderr.decode()


# ---------------------------------------------------------------- B073

OUTSTANDING = 200
TOTAL_S = 4.0
NEW_WITHIN_S = 5.0


class Restarted:
    """An agent that lets nothing go before the server is back; what was asked, and how it ended."""

    def __init__(self, slots: int) -> None:
        self.go = asyncio.Event()
        self.held = 0
        self.agent = Agent("holder", concurrency=slots)

        @self.agent.capability("hold")
        async def hold(body: int) -> int:
            self.held += 1
            await self.go.wait()
            return body

        @self.agent.capability("quick")
        async def quick(body: int) -> int:
            return body

    async def ask(self, reach: Reach, number: int) -> tuple[float, Receipt[Any]]:
        began = time.monotonic()
        receipt = await reach.request("capability:hold", number, timeout=TOTAL_S)
        return time.monotonic() - began, receipt


@pytest.mark.parametrize("keeps", [True, False], ids=["with a file", "empty"])
async def test_B073_two_hundred_that_are_outstanding_when_redis_restarts_all_end_and_new_ones_work(
    start_server: StartServer, keeps: bool
) -> None:
    server: PrivateServer = start_server(aof=keeps)
    town = Restarted(OUTSTANDING // 2)  # half of them run, half of them lie in the inbox
    async with served(server.url, town.agent) as reach, lagging() as lag:
        asked = [asyncio.ensure_future(town.ask(reach, number)) for number in range(OUTSTANDING)]
        await wait_until(lambda: town.held == OUTSTANDING // 2, 10)
        await asyncio.to_thread(server.kill)
        assert reach.outstanding == OUTSTANDING
        await asyncio.to_thread(server.restart)
        back = time.monotonic()
        town.go.set()
        new = await reach.request("capability:quick", 7, timeout=2 * NEW_WITHIN_S)
        took_s = time.monotonic() - back
        assert (new.code, new.output) == ("ok", 7)
        assert took_s < NEW_WITHIN_S + lag.allowed_s
        ended = await asyncio.gather(*asked)
        assert max(took_s for took_s, _ in ended) < TOTAL_S + 0.25 + lag.allowed_s
        codes = {receipt.code for _, receipt in ended}
        assert codes == ({"ok"} if keeps else codes & {"ok", "timeout.total"})
        assert {receipt.output for _, receipt in ended if receipt.ok} <= set(range(OUTSTANDING))
        assert reach.outstanding == 0
        more = await asyncio.gather(*(reach.request("capability:quick", number) for number in range(OUTSTANDING)))
        assert [receipt.output for receipt in more] == list(range(OUTSTANDING))


# ---------------------------------------------------------------- B076


async def lives_ms(place: Place, msg_id: str) -> int:
    return await place.ttl_ms(KEYS.message(0, msg_id))


async def left_ms(drive: Drive, msg_id: str) -> int:
    """Until the total of the message is over."""
    return (await drive.head(msg_id)).total_at_ms - await drive.backend.now_ms()


@pytest.mark.parametrize("total_ms", [5_000, 30_000, 3_600_000])
async def test_B076_a_record_outlives_its_slowest_leg_and_counts_its_window_from_the_end(
    drive: Drive, total_ms: int
) -> None:
    window_ms = min(max(2 * total_ms, WINDOW_MS), 600_000)
    await drive.past_grace()
    await drive.backend.open_inbox(0, "a2")
    plans = (TO_AGENT, Plan("deliver", "a2"))
    msg_id = await drive.sent(*plans, scope="all", total_ms=total_ms, ttl_ms=total_ms, max_attempts=10)
    assert await drive.settle(await drive.taken(), success()) == "done"
    first = await drive.receipt()

    async def holds() -> None:
        assert await lives_ms(drive.place, msg_id) >= max(await left_ms(drive, msg_id), 0) + window_ms - 1

    # The other one is tried again and again, until its total is over.
    for _ in range(4):
        await holds()
        (taken,) = await drive.take("j1", agent="a2")
        assert await drive.settle_as("a2", taken, retryable(), "j1") == "done"
        await holds()
        await drive.decide(await drive.asked_again(), Plan("delay", "a2", wait_ms=total_ms // 5))
        await drive.place.pass_time(total_ms // 5)
        await drive.backend.due(0)
        await drive.decide(await drive.asked_again(), Plan("deliver", "a2"))
        await holds()
    await drive.place.pass_time(await left_ms(drive, msg_id))
    await drive.keep_box()
    await drive.backend.due(0)
    assert (first["code"], (await drive.receipt())["code"]) == ("ok", "timeout.total")
    # From here on the window counts, for both legs: until its last moment whoever asks again is told what each has ended with.
    assert window_ms - 1_000 <= await lives_ms(drive.place, msg_id) <= window_ms
    await drive.place.pass_time(await lives_ms(drive.place, msg_id) - 1_000)
    await drive.keep_box("late")
    _, result = await drive.send(*plans, msg_id=msg_id, reply_to="late", scope="all", total_ms=total_ms)
    assert result.known == "duplicate"
    told = await drive.receipts("late")
    assert sorted((receipt["code"], receipt["stored"]) for receipt in told) == [("ok", True), ("timeout.total", True)]


async def test_B076_what_is_to_be_handed_over_later_is_remembered_until_then_and_its_total_and_window(
    drive: Drive,
) -> None:
    later_ms = await drive.backend.now_ms() + 3_600_000
    msg_id = await drive.sent(Plan("delay", wait_ms=3_600_000), not_before_ms=later_ms)
    assert await lives_ms(drive.place, msg_id) > 3_600_000 + 30_000 + WINDOW_MS - 1_000


async def test_B076_a_caller_of_a_broadcast_whose_slowest_leg_retries_gets_every_receipt(
    redis_url: str, raw: redis.asyncio.Redis
) -> None:
    quick, slow = Agent("quick", groups=("all",)), Agent("slow", groups=("all",))
    runs: list[int] = []

    @quick.on("request")
    async def at_once() -> str:
        return "quick"

    @slow.on("request")
    async def at_last() -> str:
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("not yet")
        return "slow"

    async with served(redis_url, quick, slow) as reach:
        receipts = await reach.request("group:all", scope="all", timeout=20)
    assert sorted(receipt.output for receipt in receipts if receipt.output) == ["quick", "slow"]
    assert await raw.pttl(KEYS.message(0, receipts[0].msg_id).replace("{test.", "{dev.")) > WINDOW_MS - 20_000
