"""GROUP-START: groups are made at 0 and read from there, by any number of processes at once."""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack, ExitStack

import pytest
import redis.asyncio

from reach import Reach
from reach.backend.keys import KeySpace
from tests.bugs.town import echo_agent
from tests.e2e.processes import Process, WorkerProcess
from tests.integration.sdk.world import router
from tests.waiting import eventually

MESSAGES = 100
AT_ONCE = 20
PROCESSES = 8


async def test_B007_what_was_sent_before_anybody_ever_started_arrives(redis_url: str) -> None:
    async with Reach.connect(redis_url, agent_id="tester") as reach:
        handles = [await reach.send("agent_id:late", number, type="request") for number in range(MESSAGES)]
        async with router(redis_url), echo_agent("late").running(redis_url, grace=0):
            receipts = [await handle.receipt(20) for handle in handles]
    assert [(receipt.code, receipt.output) for receipt in receipts] == [("ok", number) for number in range(MESSAGES)]


def groups(url: str) -> dict[str, list[str]]:
    """Stream -> its groups, of every stream that has one."""
    found = {}
    with redis.Redis.from_url(url, decode_responses=True) as client:
        for key in client.keys("*"):
            if client.type(key) == "stream" and (rows := client.xinfo_groups(key)):
                found[key] = [row["name"] for row in rows]
    return found


def all_once(made: dict[str, list[str]]) -> bool:
    """The five doors, control, and the three lanes of the one agent have one group each."""
    return len(made) == 9 and all(len(names) == 1 for names in made.values())


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.long)])
async def test_B010_twenty_routers_and_twenty_instances_start_at_once(
    redis_url: str, raw: redis.asyncio.Redis, caplog: pytest.LogCaptureFixture, rounds: int
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(rounds):
        await raw.flushall()
        caplog.clear()  # of who was cut off at the end of a round
        async with AsyncExitStack() as stack, Reach.connect(redis_url, agent_id="tester") as reach:
            async with asyncio.TaskGroup() as starting:
                for number in range(AT_ONCE):
                    starting.create_task(stack.enter_async_context(router(redis_url, f"w{number}")))
                    starting.create_task(stack.enter_async_context(echo_agent("one").running(redis_url, grace=0)))
            receipts = await asyncio.gather(*(reach.request("agent_id:one", n, type="request") for n in range(AT_ONCE)))
            assert {receipt.code for receipt in receipts} == {"ok"}
            made = groups(redis_url)
            assert all_once(made), made
            assert not caplog.messages


@pytest.mark.long
@pytest.mark.processes
def test_B010_processes_start_at_once_and_none_of_them_ends(redis_url: str) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(WorkerProcess(redis_url)) for _ in range(PROCESSES)]
        agents = [
            stack.enter_context(Process("tests.integration.sdk.worker_agent", "one", REACH_REDIS_URL=redis_url))
            for _ in range(PROCESSES)
        ]
        for worker in workers:
            worker.wait_ready(within_s=60)
        with redis.Redis.from_url(redis_url) as client:
            eventually(lambda: client.zcard(KeySpace("dev").beats()) == PROCESSES, 60, "a beat of every instance")
        made = groups(redis_url)
        assert all_once(made), made
        assert all(one.running for one in (*workers, *agents))
        for agent in agents:
            agent.signal(signal.SIGTERM)
        assert [agent.wait()[0] for agent in agents] == [0] * PROCESSES
        ended = [worker.drain() for worker in workers]
    assert [status for status, _ in ended] == [0] * PROCESSES
    assert not [line for _, lines in ended for line in lines if line["level"] in {"warning", "error"}]
