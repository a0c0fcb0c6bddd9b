"""`reach doctor` from outside: what it prints, and its exit status."""

import asyncio
import json
import shlex

import pytest
import redis

from reach.backend.private_server import PrivateServer
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import free_port, reach
from tests.e2e.test_cli import refund_agent

pytestmark = pytest.mark.processes


async def test_a_running_env_passes_and_a_broken_one_does_not(server: PrivateServer, start_worker: StartWorker) -> None:
    url = server.url
    start_worker().wait_ready()
    async with refund_agent().running(url=url):
        done = await asyncio.to_thread(reach, "doctor", "-o", "json", REACH_REDIS_URL=url)
        told = json.loads(done.stdout)
        bad = [check for check in told["checks"] if check["status"] == "fail"]
        assert (done.returncode, told["env"], bad) == (0, "dev", [])
        assert told["status"] == "warn"  # a server for tests keeps nothing
        assert {check["check"] for check in told["checks"]} >= {"workers", "agents", "pending", "tick"}
        with redis.Redis.from_url(url) as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
            try:
                done = await asyncio.to_thread(reach, "doctor", REACH_REDIS_URL=url)
            finally:
                client.config_set("maxmemory-policy", "noeviction")
    lines = done.stdout.decode().splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("fail"))
    assert lines[at].split()[:3] == ["fail", "eviction", "maxmemory-policy"]
    assert lines[at + 1].strip() == "-> redis-cli CONFIG SET maxmemory-policy noeviction"
    assert done.returncode == 1
    assert done.stderr.decode().endswith(": fail\n")


@pytest.mark.leaves(r"(?s:.*)", why="the foreign key is what the doctor names")
def test_what_others_have_named_steers_neither_terminal_nor_shell(server: PrivateServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.set("reach:{dev.0}:x\n\x1b[2Jok    keys'; rm -rf ~", 1)
    done = reach("doctor", "--redis-url", server.url)
    at = next(line for line in done.stdout.decode().split("\n") if line.startswith("fail  keys"))
    assert "reach:{dev.0}:x\\n\\x1b[2Jok    keys'; rm -rf ~ no row" in at
    helps = done.stdout.decode().split("\n")[done.stdout.decode().split("\n").index(at) + 1]
    assert shlex.split(helps)[-1] == "reach:{dev.0}:x\\n\\x1b[2Jok    keys'; rm -rf ~"
    assert b"\x1b" not in done.stdout


def test_a_server_that_cannot_be_used_is_69(server: PrivateServer) -> None:
    assert reach("doctor", "--redis-url", f"redis://127.0.0.1:{free_port()}").returncode == 69
    denied = reach("doctor", "--redis-url", server.url.replace("redis://", "redis://nobody:secret@"))
    assert denied.returncode == 69
    assert b"secret" not in denied.stdout + denied.stderr
    assert reach("doctor", "--env", "a.b").returncode == 78
    assert reach("doctor", "--redis-url", "memory://").returncode == 78
