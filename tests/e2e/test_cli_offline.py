"""`reach agents --offline`: who is gone, when and why."""

import asyncio
import json
from typing import Any

import pytest

from reach import Agent
from reach.backend import open_backend
from reach.backend.private_server import PrivateServer
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import reach

pytestmark = pytest.mark.processes


async def call(url: str, *arguments: str) -> Any:
    return await asyncio.to_thread(reach, "agents", "--offline", *arguments, REACH_REDIS_URL=url)


def echo_agent(agent_id: str) -> Agent:
    agent = Agent(agent_id)

    @agent.capability("echo")
    async def echo(body: Any) -> Any:
        return body

    return agent


async def test_who_has_gone_is_remembered_until_it_is_back(server: PrivateServer, start_worker: StartWorker) -> None:
    start_worker().wait_ready()
    nobody = await call(server.url)
    assert (nobody.returncode, nobody.stdout) == (0, b"")
    assert nobody.stderr.decode() == "no agent of env dev has gone within the last 24 h\n"
    async with echo_agent("keeps").running(url=server.url):
        for name in ("goes", "comes-back"):
            async with echo_agent(name).running(url=server.url, grace=0):
                pass
        backend = open_backend(server.url)
        await backend.open()
        try:
            await backend.register("dies", b'{"agent_id":"dies"}', "i1", b"{}", None)
            stored, beats = await backend.registration("dies")
            assert await backend.remove("dies", stored or b"", 1 << 52, "silent")
        finally:
            await backend.close()
        async with echo_agent("comes-back").running(url=server.url, grace=0):
            told = json.loads((await call(server.url, "-o", "json")).stdout)
            assert [(one["agent_id"], one["why"]) for one in told] == [("dies", "silent"), ("goes", "left")]
            assert told[0]["gone_ms_ago"] >= 0
            assert told[0]["gone_at_ms"] - told[0]["last_beat_ms_ago"] <= beats["i1"] <= told[0]["gone_at_ms"]
            assert told[1]["last_beat_ms_ago"] is None
            head, dies, goes = (await call(server.url)).stdout.decode().splitlines()
            assert head.split() == ["AGENT", "WHY", "GONE", "LAST", "BEAT"]
            assert dies.split()[:2] == ["dies", "silent"]
            assert (goes.split()[:2], goes.split()[-1]) == (["goes", "left"], "-")
