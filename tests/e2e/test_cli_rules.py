"""`reach rules` from outside."""

import asyncio
import json
from pathlib import Path

import pytest

from reach import Agent, Reach
from reach.backend.private_server import PrivateServer
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import reach

pytestmark = pytest.mark.processes

DENY = {"source": "intern-*", "target": "capability:refund", "effect": "deny"}


def run(server: PrivateServer, *arguments: str) -> tuple[int, str, str]:
    done = reach(*arguments, REACH_REDIS_URL=server.url)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_rule_comes_and_goes_and_what_is_wrong_is_told_at_once(server: PrivateServer, tmp_path: Path) -> None:
    status, out, talk = run(server, "rules", "ls")
    assert (status, out) == (0, "")
    assert "no rules" in talk
    path = tmp_path / "rule.json"
    path.write_text(json.dumps(DENY))
    status, _, talk = run(server, "rules", "set", "interns", f"@{path}")
    assert (status, talk) == (0, "interns: intern-* may not call capability:refund\n")
    (entry,) = json.loads(run(server, "rules", "ls", "-o", "json")[1])
    assert entry == {"name": "interns", "rule": DENY, "problem": None}
    status, _, talk = run(server, "rules", "set", "x", '{"source": "a b", "target": "refund", "effect": "no"}')
    assert status == 78
    assert all(word in talk for word in ("source", "target", "effect", "capability:refund.*", "group:billing"))
    assert "interns" in run(server, "rules", "ls")[1]
    assert run(server, "rules", "rm", "interns")[0] == 0
    assert run(server, "rules", "rm", "interns")[0] == 1


async def test_a_trial_shows_who_may_and_a_message_is_refused(server: PrivateServer, start_worker: StartWorker) -> None:
    start_worker().wait_ready()
    agent = Agent("refunds")

    @agent.capability("refund")
    async def refund(body: object) -> object:
        return body

    async with agent.running(url=server.url):
        rule = json.dumps(DENY)
        assert (await asyncio.to_thread(run, server, "rules", "set", "interns", rule))[0] == 0
        status, out, _ = await asyncio.to_thread(run, server, "rules", "test", "intern-1", "refund")
        assert status == 1
        assert "intern-1 may not call capability:refund (the env is open" in out
        assert "the rule interns denies intern-1 capability:refund" in out
        status, out, _ = await asyncio.to_thread(run, server, "rules", "test", "ann", "refund", "-o", "json")
        assert status == 0
        assert json.loads(out)["agents"] == [{"agent": "refunds", "allowed": True, "reason": ""}]
        async with Reach.connect(server.url, agent_id="intern-7") as client:
            receipt = await client.request("refund", {}, timeout=20)
        assert receipt.code == "auth.denied"
        assert (await asyncio.to_thread(run, server, "settings", "set", "closed", "1"))[0] == 0
        status, out, _ = await asyncio.to_thread(run, server, "rules", "test", "ann", "refund")
        assert status == 1
        assert "no rule allows ann" in out
