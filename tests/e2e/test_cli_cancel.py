"""`reach cancel` from outside: only its sender's, and what it says."""

import asyncio
import subprocess
import time
import uuid
from collections.abc import AsyncIterator

import pytest

from reach import Agent, Reach
from reach.backend.private_server import PrivateServer
from reach.sdk.handle import Handle
from reach.testing import wait_until
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import reach
from tests.integration.sdk.world import router

pytestmark = pytest.mark.processes


def answer(done: "subprocess.CompletedProcess[bytes]") -> tuple[int, str]:
    return done.returncode, (done.stdout or done.stderr).decode().strip()


async def call(url: str, *arguments: str) -> tuple[int, str]:
    """Run it beside the agent, which lives in this loop: its status, and what it said."""
    done = await asyncio.to_thread(reach, "cancel", *arguments, REACH_REDIS_URL=url)
    return answer(done)


class Worker:
    """Works until it is cancelled."""

    def __init__(self) -> None:
        self.began = self.cancelled = 0
        self.agent = Agent("worker")

        @self.agent.capability("work")
        async def work() -> None:
            self.began += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1


@pytest.fixture
async def worker(server: PrivateServer) -> AsyncIterator[Worker]:
    made = Worker()
    async with router(server.url), made.agent.running(server.url, grace=0):
        yield made


async def test_whoever_sends_is_told_as_whom_it_can_be_cancelled(server: PrivateServer, worker: Worker) -> None:
    later = ("--needs", "tier=any", "--header", "from=here", "--not-before", str(time.time() + 600))
    for said in ((), ("--as", "shop"), ("--key", "k")):
        done = await asyncio.to_thread(reach, "send", "worker", *said, *later, REACH_REDIS_URL=server.url)
        msg_id, talk = done.stdout.decode().strip(), done.stderr.decode().strip()
        sender = talk.removeprefix("sent as ").partition(":")[0]
        assert talk == f"sent as {sender}: reach cancel {msg_id} --as {sender}"
        assert sender == {"--as": "shop", "--key": "reach-cli"}.get(said[0] if said else "", sender)
        assert await call(server.url, msg_id, "--as", sender) == (0, "cancelled")
    assert worker.began == 0


async def test_its_sender_ends_it_and_nobody_else(server: PrivateServer, worker: Worker) -> None:
    async with Reach.connect(server.url, agent_id="shop") as shop:
        handle: Handle = await shop.send("worker")
        await wait_until(lambda: worker.began)
        status, said = await call(server.url, handle.msg_id, "--as", "thief")
        assert (status, said.startswith("reach: auth.denied")) == (1, True)
        assert await call(server.url, handle.msg_id, "--as", "shop") == (0, "cancelled")
        assert (await handle.receipt(5)).code == "cancelled"
        await wait_until(lambda: worker.cancelled, what="the end of the handler")
        assert await call(server.url, handle.msg_id, "--as", "shop") == (1, "ended")
    assert await call(server.url, str(uuid.uuid4()), "--as", "shop") == (0, "tombstone")


async def test_what_names_no_message_is_wrong_usage(server: PrivateServer) -> None:
    assert (await call(server.url, "order-1", "--as", "shop"))[0] == 2
    assert (await call(server.url, str(uuid.uuid4())))[0] == 2


@pytest.mark.leaves_work(why="the entry waits for a worker")
async def test_where_no_worker_serves_it_is_done_later(server: PrivateServer, start_worker: StartWorker) -> None:
    async with Reach.connect(server.url, agent_id="shop") as shop:
        handle = await shop.send("worker")
        status, said = await call(server.url, handle.msg_id, "--as", "shop")
        assert (status, "no answer" in said) == (75, True)
        start_worker().wait_ready()
        assert (await handle.receipt(10)).code == "cancelled"
