"""`reach replay`: never by accident into the same env, and with what differs."""

import asyncio
import json

import pytest

from reach import Agent
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from tests.e2e.conftest import StartWorker
from tests.e2e.plain import Wire
from tests.e2e.processes import reach
from tests.integration.sdk.test_replaying import recorded

pytestmark = pytest.mark.processes


async def test_recordings_go_into_another_env_and_differences_are_told(
    server: PrivateServer, client: Wire, start_worker: StartWorker
) -> None:
    lost = {
        "at_us": 9,
        "point": "message.received",
        "msg_id": "m0",
        "correlation_id": "case",
        "left_out": {"why": "hash"},
    }
    records = [lost, *recorded(1_000_000, "m1", 1, 2), *recorded(2_000_000, "m2", 2, 5)]
    client("XADD", KeySpace("dev").events(0), "*", "b", json.dumps(records), "v", "1")
    agent = Agent("new")

    @agent.capability("double")
    async def double(body: int) -> int:
        return body * 2

    async def run(*arguments: str) -> tuple[int, str, str]:
        done = await asyncio.to_thread(reach, "replay", *arguments, REACH_REDIS_URL=server.url)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    case = ("--correlation-id", "case")
    status, out, talk = await run(*case)
    assert (status, out) == (2, "")
    assert "--same-env" in talk
    assert (await run(*case, "--env", "dev"))[0] == 2
    assert (await run("--env", "shadow"))[0] == 2
    status, out, talk = await run(*case, "--env", "shadow", "--dry-run")
    assert status == 0
    assert out.splitlines() == [f"{name} would go to capability:double in env shadow: 1 bytes" for name in ("m1", "m2")]
    assert "m0 is left out: its envelope is only hashed here" in talk
    status, out, talk = await run("--msg-id", "nobody", "--env", "shadow")
    assert (status, out) == (1, "")
    assert "no records of nobody" in talk
    start_worker("--env", "shadow").wait_ready()
    async with agent.running(url=server.url, env="shadow"):
        status, out, talk = await run(*case, "--env", "shadow", "--diff")
        assert status == 1, talk
        first, second, where = out.splitlines()
        assert first.startswith("m1 -> ")
        assert first.endswith("  capability:double  ok: same")
        assert second.startswith("m2 -> ")
        assert second.endswith("  capability:double  ok: 1 difference")
        assert where == "  output: 5 -> 4"
        status, out, _ = await run("--msg-id", "m1", "--env", "shadow", "--to", "agent_id:new", "-o", "ndjson")
        told = json.loads(out)
        assert (status, told["replay_of"], told["target"], told["codes"]) == (0, "m1", "agent_id:new", ["ok"])
