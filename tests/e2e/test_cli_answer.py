"""`reach answer` from outside, and the same with plain Redis commands as docs/wire.md has them."""

import asyncio
import json
import subprocess
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Context, Reach
from reach.backend.private_server import PrivateServer
from reach.backend.scripts import script
from reach.sdk.handle import Handle
from reach.testing import wait_until
from tests.e2e.processes import reach
from tests.integration.sdk.world import router

pytestmark = pytest.mark.processes


@pytest.fixture
async def asks(server: PrivateServer) -> AsyncIterator[None]:
    agent = Agent("asker")

    @agent.capability("ask")
    async def ask(ctx: Context) -> Any:
        return await ctx.input_required({"sure": True})

    async with router(server.url), agent.running(server.url, grace=0):
        yield


async def call(url: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """Run it beside the agent, which lives in this loop."""
    return await asyncio.to_thread(reach, "answer", *arguments, REACH_REDIS_URL=url)


async def parked(handle: Handle) -> None:
    async def is_parked() -> bool:
        status = await handle.status()
        return any(leg.state == "parked" for leg in status.legs)

    await wait_until(is_parked)


@pytest.mark.usefixtures("asks")
async def test_its_sender_answers_and_nobody_else(server: PrivateServer) -> None:
    async with Reach.connect(server.url, agent_id="shop") as shop:
        handle = await shop.send("ask")
        await parked(handle)
        stranger = await call(server.url, handle.msg_id, "yes", "--as", "thief")
        assert (stranger.returncode, b"answer.denied" in stranger.stderr) == (1, True)
        done = await call(server.url, handle.msg_id, '{"by": "ann"}', "--as", "shop")
        assert (done.returncode, done.stderr) == (0, b"")
        assert (await handle.receipt(10)).output == {"by": "ann"}
        late = await call(server.url, handle.msg_id, "yes", "--as", "shop")
        assert (late.returncode, b"answer.not_asked" in late.stderr) == (1, True)
        unknown = await call(server.url, str(uuid.uuid4()), "yes")
        assert (unknown.returncode, b"answer.unknown" in unknown.stderr) == (1, True)
        assert (await call(server.url, "no-id", "yes")).returncode == 2


@pytest.mark.usefixtures("asks")
async def test_with_plain_redis_commands(server: PrivateServer) -> None:
    raw: Any = redis.asyncio.Redis.from_url(server.url, decode_responses=True)
    msg_id, box, tag = str(uuid.uuid4()), f"plain.{uuid.uuid4().hex}", "reach:{dev.0}:"
    await raw.xadd(f"{tag}mail:{box}", {"hello": "1"})
    await raw.pexpire(f"{tag}mail:{box}", 60_000)
    envelope = {
        "msg_id": msg_id,
        "type": "request",
        "timestamp": 1,
        "source": {"agent_id": "plain"},
        "reply_to": box,
        "target": {"pattern": "capability:ask"},
    }
    await raw.xadd(f"{tag}ingress:normal", {"e": json.dumps(envelope)})

    async def mail(field: str, kind: str = "") -> dict[str, Any] | None:
        entries = [json.loads(fields[field]) for _, fields in await raw.xrange(f"{tag}mail:{box}") if field in fields]
        return next((entry for entry in entries if entry.get("notice", "") == kind), None)

    await wait_until(lambda: mail("n", "input_required"))
    asked = await mail("n", "input_required")
    assert asked is not None
    assert (asked["msg_id"], asked["prompt"], asked["attempt"]) == (msg_id, {"sure": True}, 1)
    sha = await raw.script_load(script("answer").text)

    async def answer(sender: str, hand: str) -> str:
        return str(await raw.evalsha(sha, 1, f"{tag}due", msg_id, sender, asked["leg"], hand, '"yes"'))

    assert await answer("thief", asked["hand"]) == "denied"
    assert await answer("plain", "7-7") == "stale"
    assert await answer("plain", asked["hand"]) == "done"
    assert await answer("plain", asked["hand"]) == "stale"
    await wait_until(lambda: mail("r"))
    receipt = await mail("r")
    assert receipt is not None
    assert (receipt["status"], receipt["output"]) == ("success", "yes")
    routed = [notice for notice in [await mail("n", "routed")] if notice and "left_ms" in notice]
    assert routed[0]["hand"] == asked["hand"]
    await raw.aclose()
