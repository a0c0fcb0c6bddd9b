"""Duplicates, and what keeps them from running: the ledger's record, whose claim is a lease and never a bare flag."""

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Reach
from reach.backend.connection import Link
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.delivery import pulse
from reach.errors import BackendUnavailable
from reach.testing import wait_until
from tests.bugs.served import served
from tests.contract.drive import TO_AGENT, Drive, success
from tests.contract.places import KEYS, Place
from tests.faults.proxy import FaultProxy
from tests.integration.spine import Spine, envelope, until
from tests.servers import StartServer

DEV = KeySpace("dev")
MAX_CALLERS = 4  # so many mailboxes a message answers


# ---------------------------------------------------------------- B064


async def test_B064_of_a_hundred_at_the_same_instant_one_runs(place: Place) -> None:
    async with AsyncExitStack() as stack:
        spines = [await stack.enter_async_context(Spine(place, await place.connect(), f"w{n}")) for n in range(5)]
        first = spines[0]
        await first.register("refund-1", "refund")
        boxes = [f"box.of.{number}" for number in range(100)]
        for box in boxes:
            await first.backend.keep_mailbox(box, [0])
        made = envelope()
        async with asyncio.TaskGroup() as group:
            for number, box in enumerate(boxes):
                data = json.dumps({**made, "reply_to": box}).encode()
                group.create_task(spines[number % 5].put({"e": data}))
        hand, _ = await first.work("refund-1")
        await first.quiet()
        await first.settle(str(made["msg_id"]), hand, {"status": "success", "output": 7})

        async def answers() -> list[dict[str, Any]]:
            """The receipts in each box, once every box has one."""
            found = []
            for box in boxes:
                entries = await place.entries(KEYS.mail(0, box))
                receipts = [json.loads(fields[b"r"]) for _, fields in entries if b"r" in fields]
                assert len(receipts) <= 1, receipts
                found += receipts
            return found if len(found) == len(boxes) else []

        codes = [(receipt["code"], receipt["output"]) for receipt in await until(answers, "an answer in each box")]
        assert sorted(codes, key=repr) == [("ok", 7)] * MAX_CALLERS + [("overloaded", None)] * (100 - MAX_CALLERS)
        # Whoever comes when it has ended is told how, and again nothing runs.
        late = json.dumps({**made, "reply_to": "box.1"}).encode()
        await asyncio.gather(*(spine.put({"e": late}) for spine in spines))
        stored = await until(lambda: _five(first, str(made["msg_id"])), "five stored receipts")
        assert {(receipt["code"], receipt["output"], receipt["stored"]) for receipt in stored} == {("ok", 7, True)}
        await first.quiet()
        assert await place.entries(KEYS.inbox(0, "refund-1", "normal")) == []


async def _five(spine: Spine, msg_id: str) -> list[dict[str, Any]]:
    found = await spine.mail(msg_id)
    return found if len(found) == 5 else []


async def test_B064_a_hundred_callers_of_one_key_get_one_receipt(redis_url: str, raw: redis.asyncio.Redis) -> None:
    runs: list[int] = []
    agents = [Agent("payer-1"), Agent("payer-2")]
    for agent in agents:

        @agent.capability("pay")
        async def pay(body: int) -> int:
            runs.append(body)
            return len(runs)

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(served(redis_url, *agents, routers=5))
        connecting = [Reach.connect(redis_url, agent_id="payee") for _ in range(MAX_CALLERS)]
        clients = [await stack.enter_async_context(one) for one in connecting]
        asked = (clients[n % MAX_CALLERS].request("capability:pay", 5, key="order 7") for n in range(100))
        receipts = await asyncio.gather(*asked)
        assert {(receipt.code, receipt.output) for receipt in receipts} == {("ok", 1)}
        assert len({receipt.msg_id for receipt in receipts}) == 1
        assert runs == [5]


# ---------------------------------------------------------------- B065


async def again(drive: Drive, msg_id: str) -> None:
    """The same send once more, from another box."""
    await drive.backend.keep_mailbox("second", [0])
    _, result = await drive.send(msg_id=msg_id, reply_to="second")
    assert (result.verdict, result.known) == ("done", "duplicate")


@pytest.mark.parametrize("where", ["queued", "running", "returned", "handed over anew"])
async def test_B065_a_repeat_is_never_blocked_by_a_dead_holder(drive: Drive, where: str) -> None:
    """Whoever had it dies there and is not seen again; the repeat is answered by whoever takes it over, 17 s later at the latest."""
    await drive.past_grace()
    msg_id = await drive.sent(total_ms=120_000, processing_ms=120_000)
    asked = None
    if where != "queued":
        await drive.taken("i1")
    if where in ("returned", "handed over anew"):
        await drive.live(17_000)
        asked = await drive.asked_again()
    if where == "handed over anew":
        assert asked is not None
        await drive.decide(asked, TO_AGENT)
        await drive.taken("i1")  # and dies once more
    await again(drive, msg_id)
    if where in ("running", "handed over anew"):
        await drive.live(17_000)
        asked = await drive.asked_again()
    if asked is not None:
        await drive.decide(asked, TO_AGENT)
    taken = await drive.taken("i2")
    assert taken.msg_id == msg_id
    assert await drive.settle(taken, success(), "i2") == "done"
    first, second = await drive.receipt(), await drive.receipt("second")
    assert (first["code"], second["code"], first["attempts"]) == ("ok", "ok", second["attempts"])
    assert first["attempts"] == {"queued": 1, "running": 2, "returned": 2, "handed over anew": 3}[where]


# ---------------------------------------------------------------- B067


async def test_B067_a_send_whose_reply_is_lost_runs_once(server: PrivateServer, raw: redis.asyncio.Redis) -> None:
    runs: list[int] = []
    agent = Agent("payer", concurrency=100)

    @agent.capability("pay")
    async def pay(body: int) -> int:
        runs.append(body)
        return body

    async with served(server.url, agent), FaultProxy(server.port) as proxy, Reach.connect(proxy.url) as reach:
        await reach.request(
            "capability:pay", -1
        )  # a server that has the scripts: else the reply that asks for them is lost, and no more
        runs.clear()
        proxy.swallow_replies()
        waiting = [asyncio.ensure_future(reach.request("capability:pay", number, timeout=20)) for number in range(100)]
        # No reply comes for what has run already: one command on each of 32 connections waits.
        await wait_until(lambda: len(runs) >= 30, what="the first sends")
        proxy.heal()
        proxy.reset()
        receipts = await asyncio.gather(*waiting)
        assert [receipt.output for receipt in receipts] == list(range(100))
        assert sorted(runs) == list(range(100))
        # They were sent again, and not run again; but for those whose receipt was in the mailbox before their turn to be sent again came.
        again = (await raw.xinfo_stream(DEV.ingress(0, "normal")))["entries-added"] - 101
        assert again > 0


@pytest.mark.leaves("counter", why="the test puts it there")
async def test_B067_a_slow_server_is_asked_once(start_server: StartServer) -> None:
    server = start_server()
    link = Link(server.url, command_limit_ms=150)
    await asyncio.gather(*(link.call("PING") for _ in range(10)))
    os.kill(server.pid, signal.SIGSTOP)
    try:
        outcomes = await asyncio.gather(*(link.call("INCR", "counter") for _ in range(10)), return_exceptions=True)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert {type(outcome) for outcome in outcomes} == {BackendUnavailable}
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        count: Any = await until(lambda: raw.get("counter"), "the first count")
        assert await raw.get("counter") == count  # what was sent stands in front of this one
    assert int(count) <= 10
    await link.close()


# ---------------------------------------------------------------- B070


async def test_B070_what_was_in_flight_when_redis_went_away_is_counted_down(
    server: PrivateServer, raw: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "EVERY_MS", 200)
    agent, go, ended = Agent("payer"), asyncio.Event(), []

    @agent.capability("pay")
    async def pay(body: int) -> int:
        await go.wait()
        ended.append(body)
        return body

    async def in_flight() -> int:
        (beat,) = (await raw.hgetall(DEV.load())).values()
        return int(json.loads(beat).get("inflight", 0))

    async with served(server.url) as reach, FaultProxy(server.port) as proxy:
        async with agent.running(proxy.url, grace=0):
            handles = [await reach.send("payer", number) for number in range(5)]
            await until(lambda: _is(in_flight, 5), "five in flight")
            proxy.refuse()
            proxy.reset()
            go.set()
            # They end while nothing can be written.
            await wait_until(lambda: len(ended) == 5)
            proxy.heal()
            receipts = [await handle.receipt(20) for handle in handles]
            assert [receipt.output for receipt in receipts] == list(range(5))
            await until(lambda: _is(in_flight, 0), "nothing in flight")
            await wait_until(lambda: len(agent.instances[0].runs) == 0, what="the end of every run")
            assert (await reach.request("payer", 7)).ok


async def _is(count: Any, wanted: int) -> bool:
    return bool(await count() == wanted)
