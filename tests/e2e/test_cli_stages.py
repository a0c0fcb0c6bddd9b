"""`reach send --scope all --stage ...` from outside: who is in which stage, one after the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from reach import Agent, Context, Reach, Reject
from reach.backend.private_server import PrivateServer
from reach.testing import wait_until
from tests.e2e.conftest import StartWorker
from tests.e2e.test_cli import call

pytestmark = pytest.mark.processes


WHO = ("--as", "desk", "--key", "the piece", "--timeout", "30")


class House:
    """Agents of one group, and in which order they were given a message: each drafts or reviews, and one only looks on."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.going = 0
        self.side_by_side = 0
        self.agents = [
            self.agent("writer-1", "draft"),
            self.agent("reviewer-1", "review"),
            self.agent("legal-01", "law"),
            self.agent("archive", "look"),
        ]

    def agent(self, agent_id: str, capability: str) -> Agent:
        agent = Agent(agent_id, groups=("publishing",))

        @agent.capability(capability)
        async def work(body: Any, _ctx: Context) -> str:
            self.going += 1
            self.side_by_side = max(self.side_by_side, self.going)
            await asyncio.sleep(0.05)
            self.going -= 1
            self.done.append(agent_id)
            if body == f"no {capability}":
                raise Reject("no", "not this one")
            return agent_id

        return agent


@asynccontextmanager
async def running(house: House, url: str) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for agent in house.agents:
            await stack.enter_async_context(agent.running(url=url))
        yield


async def repeated(url: str, body: object, *stages: list[str]) -> dict[str, str]:
    """The code of each leg, which its sender hears who sends the same once more with the same key: nothing runs again."""
    async with Reach.connect(url, agent_id="desk") as reach:
        receipts = await reach.request(
            "group:publishing", body, scope="all", process_order=stages, key="the piece", timeout=30
        )
        return {str(receipt.target_agent): receipt.code for receipt in receipts}


@pytest.fixture
def house() -> House:
    return House()


async def test_stages_go_one_after_the_other_and_who_is_in_none_looks_on(
    server: PrivateServer, start_worker: StartWorker, house: House
) -> None:
    start_worker().wait_ready()
    url = server.url
    async with running(house, url):
        stages = ("--scope", "all", "--stage", "capability:draft", "--stage", "capability:review, legal-01")
        done = await call(url, "send", "group:publishing", '{"title":"x"}', *stages, *WHO)
        assert done.returncode == 0, done.stderr
        assert b"sent as desk" in done.stderr
        msg_id = done.stdout.decode().strip()
        await wait_until(lambda: len(house.done) == 3, 30)
        assert house.done[0] == "writer-1"
        assert set(house.done[1:]) == {"reviewer-1", "legal-01"}
        assert house.side_by_side <= 2, "nobody begins before the stage in front has ended"
        found = await repeated(url, {"title": "x"}, ["capability:draft"], ["capability:review", "legal-01"])
        assert found == {"legal-01": "ok", "reviewer-1": "ok", "writer-1": "ok"}
        assert len(house.done) == 3
        archive = house.agents[3]
        await wait_until(lambda: [one.msg_id for one in archive.observed] == [msg_id], 20)


async def test_a_stage_that_fails_ends_what_is_behind_it(
    server: PrivateServer, start_worker: StartWorker, house: House
) -> None:
    start_worker().wait_ready()
    async with running(house, server.url):
        stages = ("--scope", "all", "--stage", "capability:draft", "--stage", "reviewer-1")
        done = await call(server.url, "send", "group:publishing", "no draft", *stages, *WHO)
        assert done.returncode == 0, done.stderr
        found = await repeated(server.url, "no draft", ["capability:draft"], ["reviewer-1"])
        assert found == {"writer-1": "handler.rejected", "reviewer-1": "stage.failed"}
        assert house.done == ["writer-1"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--stage", "capability:draft"), b"--scope all"),
        (("--scope", "all", "--stage", ""), b"--stage"),
        (("--scope", "all", "--stage", "capability:draft, ,legal-01"), b"--stage"),
        (("--scope", "all", "--stage", "capability:"), b"capability:"),
    ],
)
async def test_stages_that_are_none_are_refused_before_anything_is_sent(
    server: PrivateServer, arguments: tuple[str, ...], says: bytes
) -> None:
    done = await call(server.url, "send", "group:publishing", "x", *arguments)
    assert done.returncode in {1, 2}
    assert done.stdout == b""
    assert says in done.stderr
    assert b"Traceback" not in done.stderr
