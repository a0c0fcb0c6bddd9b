"""`reach routes` from outside."""

import asyncio
import json
from pathlib import Path

import pytest
import redis.asyncio

from reach import Agent, Reach
from reach.backend.private_server import PrivateServer
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import reach

pytestmark = pytest.mark.processes


def run(server: PrivateServer, *arguments: str) -> tuple[int, str, str]:
    done = reach("routes", *arguments, REACH_REDIS_URL=server.url)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_policy_comes_and_goes(server: PrivateServer, tmp_path: Path) -> None:
    status, out, talk = run(server, "ls")
    assert (status, out) == (0, "")
    assert "no policies" in talk
    path = tmp_path / "policy.json"
    path.write_text('{"strategy": "tiered", "tiers": ["small", "large"]}')
    assert run(server, "set", "capability:refund", f"@{path}")[0] == 0
    (route,) = json.loads(run(server, "ls", "-o", "json")[1])
    assert route == {"pattern": "capability:refund", "policy": json.loads(path.read_text()), "problem": None}
    assert "capability:refund" in run(server, "ls")[1]
    assert run(server, "rm", "capability:refund")[0] == 0
    assert run(server, "rm", "capability:refund")[0] == 1


def test_what_was_written_by_hand_is_listed_with_what_is_wrong_with_it(server: PrivateServer) -> None:
    client = redis.Redis.from_url(server.url)
    client.hset("reach:{dev}:routes", mapping={"capability:a": '{"strategy": "scor"}', "capability:b": "no JSON"})
    client.close()
    first, second = json.loads(run(server, "ls", "-o", "json")[1])
    assert (first["policy"], second["policy"]) == ({"strategy": "scor"}, "no JSON")
    assert "strategy: 'scor' is none; there is: broadcast_all, direct" in first["problem"]
    assert "no JSON object" in second["problem"]
    assert "'scor' is none" in run(server, "ls")[1]


def test_all_that_is_wrong_is_told_and_nothing_is_set(server: PrivateServer) -> None:
    status, _, talk = run(server, "set", "refund", '{"strategy": "best", "speed": 1, "zone": "near"}')
    assert status == 78
    assert all(word in talk for word in ("pattern", "strategy", "speed", "zone", "round_robin"))
    assert run(server, "ls")[1] == ""
    assert run(server, "set", "capability:refund", "@/nowhere/policy.json")[0] == 2
    status, _, talk = run(server, "set", "refund", "{}")
    assert status == 78
    assert "capability:refund or agent_id:refund or group:refund" in talk
    assert run(server, "test", "refund pay")[0] == 2
    assert run(server, "test", "refund", "--at", "7")[0] == 2
    assert run(server, "test", "refund", "--needs", "x=1")[0] == 2
    assert run(server, "test", "refund", "--body", "/nowhere")[0] == 2


async def test_a_trial_shows_who_gets_it_and_why(
    server: PrivateServer, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker().wait_ready()
    agent = Agent("refunds")

    @agent.capability("refund", description="gives money back")
    async def refund(body: object) -> object:
        return body

    async with agent.running(url=server.url):
        status, out, _ = await asyncio.to_thread(run, server, "test", "intent:my money back")
        assert status == 0
        assert "goes to refunds" in out
        assert "it means capability:refund" in out
        told = json.loads((await asyncio.to_thread(run, server, "test", "capability:refund", "-o", "json"))[1])
        assert (told["chosen"], told["strategy"], told["code"]) == (["refunds"], "score", "")
        (tmp_path / "body.json").write_text('{"order_id": "ORD-1"}')
        said = ("--body", str(tmp_path / "body.json"), "--source", "shop-1", "--schema", "refund.request.v1")
        more = ("--needs", "context_tokens=10", "--order-key", "7", "--at", "0", "-n", "200")
        status, out, _ = await asyncio.to_thread(run, server, "test", "refund", *said, *more)
        assert status == 0
        assert "capability:refund goes to refunds (score)\npolicy: none, so the default holds\n" in out
        assert "OF 200" in out
        assert "1 answer the pattern, 1 fit" in out
        told = json.loads((await asyncio.to_thread(run, server, "test", "refund", "-n", "5", "-o", "json"))[1])
        assert told["candidates"] == [
            {"agent": "refunds", "filter": "", "reason": "", "score": None, "share": 1.0, "chosen": True}
        ]
        status, out, _ = await asyncio.to_thread(run, server, "test", "agent_id:refunds", "--hop", "refunds")
        assert status == 1
        assert "loop.detected" in out
        assert "previous_hops" in out
        assert (await asyncio.to_thread(run, server, "test", "capability:none"))[0] == 1


async def test_what_is_written_with_a_plain_command_is_followed(
    server: PrivateServer, start_worker: StartWorker
) -> None:
    """Whoever has no `reach` at hand: HSET is told to nobody, and holds all the same."""
    start_worker().wait_ready()
    agents = [Agent(name) for name in ("one", "two")]
    for agent in agents:
        agent.capability("refund")(_echo)
    rule = json.dumps({"source": "shop", "target": "agent_id:one", "effect": "deny"})
    async with (
        agents[0].running(url=server.url),
        agents[1].running(url=server.url),
        redis.asyncio.Redis.from_url(server.url) as raw,
        Reach.connect(server.url, agent_id="shop") as shop,
    ):
        await raw.hset("reach:{dev}:routes", "capability:refund", '{"strategy": "direct", "fallback": "agent_id:two"}')

        async def refund() -> str | None:
            return (await shop.request("capability:refund", {})).target_agent

        async with asyncio.timeout(10):
            for wanted in ("one", "two"):
                in_a_row = 0
                while in_a_row < 8:  # by chance once in 256 times
                    in_a_row = in_a_row + 1 if await refund() == wanted else 0
                await raw.hset("reach:{dev}:rules", "not-one", rule)


async def _echo(body: object) -> object:
    return body
