"""`reach conversation` from outside."""

import asyncio
import json

import pytest

from reach.backend import open_backend
from reach.backend.private_server import PrivateServer
from reach.backend.steps import Turn
from tests.e2e.processes import reach

pytestmark = pytest.mark.processes


def test_what_a_conversation_has_used_is_shown_to_people_and_to_programs(server: PrivateServer) -> None:
    done = reach("conversation", "show", "talk", REACH_REDIS_URL=server.url)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"nothing is counted in a conversation talk" in done.stderr
    asyncio.run(talk(server.url))
    done = reach("conversation", "show", "talk", REACH_REDIS_URL=server.url)
    assert [line.split() for line in done.stdout.decode().splitlines()] == [
        ["WHAT", "USED", "BUDGET"],
        ["cost", "0.25", "2"],
        ["tokens", "70", "-"],
        ["hops", "0", "5"],
        ["messages", "1", "-"],
    ]
    told = json.loads(reach("conversation", "show", "talk", "-o", "json", REACH_REDIS_URL=server.url).stdout)
    assert told == {
        "correlation_id": "talk",
        "cost": 0.25,
        "tokens": 70,
        "messages": 1,
        "hops": 0,
        "budget": {"hops": 5, "cost": 2.0},
    }


async def talk(url: str) -> None:
    backend = open_backend(url, env="dev")
    await backend.open()
    try:
        await backend.converse([Turn(conversation="talk", msg_id="m1", max_hops=5, max_cost=2_000_000)], 0, 0)
        await backend.spend("talk", "m1:0:1:1", 250_000, 70)
    finally:
        await backend.close()
