"""Redis comes back without its last second: what an agent reads anew and runs already goes on, and is not started again."""

import asyncio
from pathlib import Path

import pytest
import redis.asyncio

from reach import Agent, Reach
from reach.backend.keys import GROUP_AGENT, KeySpace
from reach.testing import wait_until
from tests.integration.sdk.world import router
from tests.servers import StartServer

INBOX = KeySpace("dev").inbox(0, "a", "normal")


def cut_behind_the_entry(directory: Path) -> None:
    """Let the append-only file end with the step that put an entry into the inbox."""
    (file,) = directory.glob("appendonlydir/*.incr.aof")
    written = file.read_bytes()
    added = written.index(f"XADD\r\n${len(INBOX)}\r\n{INBOX}\r\n".encode())
    end = written.index(b"EXEC\r\n", added) + len(b"EXEC\r\n")
    assert INBOX.encode() in written[end:]  # the take comes behind it
    file.write_bytes(written[:end])


async def test_what_runs_is_not_started_again(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # A renewal that comes before the next take finds nothing, and ends the run: then it begins anew. Here none comes.
    monkeypatch.setattr("reach.delivery.pulse.EVERY_MS", 600_000)
    server = start_server(aof=True)
    agent = Agent("a", concurrency=4)
    starts: list[int] = []
    go = asyncio.Event()

    @agent.capability("hang")
    async def hang(body: int) -> int:
        starts.append(body)
        await go.wait()
        return body

    async with (
        router(server.url),
        agent.running(server.url, grace=0),
        Reach.connect(server.url) as reach,
        redis.asyncio.Redis.from_url(server.url) as raw,
    ):
        handle = await reach.send("capability:hang", 7, timeout=60)
        await wait_until(lambda: starts)
        server.kill()
        cut_behind_the_entry(server.directory)
        server.restart()

        async def is_pending() -> bool:
            return bool((await raw.xpending(INBOX, GROUP_AGENT))["pending"])

        await wait_until(is_pending, 20, "the take of what lies there undelivered")
        await wait_until(lambda: len(agent.instances[0].runs) == 1)
        go.set()
        receipt = await handle.receipt()
        assert (receipt.code, receipt.output, starts) == ("ok", 7, [7])
